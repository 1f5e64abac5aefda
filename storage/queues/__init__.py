"""The queues: 20-byte entries that say where the messages of one queue lie in the log."""
