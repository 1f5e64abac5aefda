"""A whole cluster inside somebody else's test suite."""
