"""One run of an export: what is new, who reads it, what is committed, what is told."""
