"""Static topics: logical queues that stay while the brokers behind them change."""
