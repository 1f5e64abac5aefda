"""The log: its files, its records in a row, the space ahead of it, its damaged spans."""
