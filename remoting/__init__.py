"""Every byte layout that two processes share: frames, headers, bodies and message records."""
