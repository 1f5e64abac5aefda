"""Code that is compiled where it can be; each part has its definition in Python elsewhere."""
