"""A producer's retry that is stored once: which message was the first of its unique key."""
