"""Messages as pages show them."""
