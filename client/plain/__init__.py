"""Pull when a program says so, and remember nothing for it."""
