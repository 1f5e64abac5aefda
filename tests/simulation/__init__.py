"""A whole cluster in one thread on virtual time: real servers and clients, an invented network."""
