"""Answering pulls: the checks, the read, the reply, and those that wait."""
