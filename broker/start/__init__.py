"""What a broker looks at before it serves: promises of its settings, offsets of its groups."""
