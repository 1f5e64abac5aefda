"""Compaction topics: of each key the latest message, however old."""
