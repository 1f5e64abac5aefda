"""Real servers and clients that the interop and golden tests drive as processes of their own."""
