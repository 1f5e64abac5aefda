"""Let a program poll for batches of the queues that it shares or was given."""
