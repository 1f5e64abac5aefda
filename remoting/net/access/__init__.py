"""Who may do what: signatures, users, policies, and the guard that asks."""
