"""Send messages that consumers see if, and only if, a local transaction succeeds."""
