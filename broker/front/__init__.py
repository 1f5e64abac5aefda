"""Sockets: every request of a read, both ports, and what is refused where too many come."""
