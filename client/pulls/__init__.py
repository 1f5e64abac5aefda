"""Fetch one queue: a pull, the loop of pulls, when to stop, what is fetched and not done."""
