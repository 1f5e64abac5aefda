"""What a broker looks at before it serves, and what it says of its start and its stop."""
