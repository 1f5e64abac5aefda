"""What a broker looks at before it serves, mends and says; and what it says of its stop."""
