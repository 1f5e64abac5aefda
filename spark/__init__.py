"""A Spark data source over the broker's log."""
