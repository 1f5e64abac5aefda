"""SQL92 filters: an expression over message properties, compiled once, run per message."""
