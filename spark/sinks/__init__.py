"""Rows written to topics: once, also where tasks and queries are tried again."""
