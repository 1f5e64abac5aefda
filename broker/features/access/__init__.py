"""Access control: who a request is from, and whether he may."""
