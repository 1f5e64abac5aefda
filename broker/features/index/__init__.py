"""The index of message keys as a feature."""
