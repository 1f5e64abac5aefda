"""Snapshots of a store: taken of one that is served or at rest, checked, restored."""
