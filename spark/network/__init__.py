"""Queues of running brokers, read by pulls instead of files."""
