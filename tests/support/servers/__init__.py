"""Real brokers and servers: in this process, in a child, in pairs, with certificates."""
