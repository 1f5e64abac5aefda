"""The nameserver: which brokers serve which topics."""
