"""Producers that do more than send: delays, times and recalls, transactions; and their rules."""
