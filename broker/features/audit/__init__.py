"""A log of who changed what."""
