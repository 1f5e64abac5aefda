"""Request processors, one module per family of request codes."""
