"""Messages that wait for a time of their own: wheel and timer log, and what may be believed."""
