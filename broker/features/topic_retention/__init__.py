"""Topics whose messages go before the log does."""
