"""Rounds, their figures, and what is said of them and of the machine."""
