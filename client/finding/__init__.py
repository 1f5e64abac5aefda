"""Look for messages by a business key or an id, at all brokers of a topic."""
