"""What features of producing cost and keep: timers on time and waiting, a retry stored once."""
