"""Batch queues (BatchCQ): topics that store a batch as one record."""
