"""Files beside log and queues, each of one feature of the broker."""
