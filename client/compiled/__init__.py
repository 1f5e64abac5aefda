"""What consumers do to every message as C, and what is done in Python instead."""
