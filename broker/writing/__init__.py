"""From a message to the log and its acknowledgement: the turn of the loop."""
