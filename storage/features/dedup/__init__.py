"""What is kept of unique keys, so that a start need not read all messages of their windows."""
