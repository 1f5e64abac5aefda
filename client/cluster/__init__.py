"""Reach the brokers of a cluster: addresses, routes, connections, calls."""
