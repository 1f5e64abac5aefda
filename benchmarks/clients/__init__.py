"""Clients beside each other, each with its own server, in turns in one run."""
