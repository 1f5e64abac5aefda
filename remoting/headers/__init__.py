"""Typed request and reply headers, one module per family."""
