"""What settings can switch off, and the list of it."""
