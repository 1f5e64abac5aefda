"""Disks that are slow, small, bad or lose what they were given, and stores on them."""
