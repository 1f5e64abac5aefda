"""Spark in tests: sessions, drivers that are killed, rows, and what stands in for a Spark."""
