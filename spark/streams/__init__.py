"""Structured streaming: how far a micro-batch goes, and what is new."""
