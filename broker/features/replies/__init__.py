"""Replies to requests: handed to the producer that asked, and kept."""
