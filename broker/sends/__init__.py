"""Storing what producers send: fast where nothing is unusual, checked where something is."""
