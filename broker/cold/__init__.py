"""Reads that have to wait for the disk: elsewhere, bounded and fair."""
