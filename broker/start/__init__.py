"""What a broker looks at before it serves: whether it can keep what its settings ask of it."""
