"""One process for each client: it obeys orders, and measures itself."""
