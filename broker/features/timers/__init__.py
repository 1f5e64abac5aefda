"""Messages that wait for a time of their own, to the millisecond."""
