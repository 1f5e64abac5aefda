"""A piece of work to Arrow batches: what a task does."""
