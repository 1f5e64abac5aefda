"""What the commands `verify`, `repair` and `dump` have in common, and the repair itself."""
