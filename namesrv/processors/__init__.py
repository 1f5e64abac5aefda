"""Request processors of the nameserver, one module per family of request codes."""
