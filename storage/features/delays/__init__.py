"""How far delayed messages have been delivered, after any stop."""
