"""Hand messages to handlers, many at a time or in order, and send back what fails."""
