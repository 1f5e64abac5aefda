"""Loops over the log and over index files as C."""
