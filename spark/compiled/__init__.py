"""Loops over records, compiled where that can be; each is defined by numpy code elsewhere."""
