"""Who comes in, as what, and how often."""
