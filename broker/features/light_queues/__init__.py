"""Light queues (LMQ): further queues of messages that are stored once."""
