"""Every byte layout that two processes share: frames, commands, headers, bodies and message records."""
