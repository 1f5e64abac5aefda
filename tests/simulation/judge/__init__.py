"""What must hold of a run, and what may excuse that it does not."""
