"""What servers log: as text or JSON, to stderr or files that rotate, by levels that change."""
