"""Stores as they lie on a disk that a broker may write at the same time: files, queues, ends."""
