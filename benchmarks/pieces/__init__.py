"""Small pieces of the hot path, timed or counted without sockets."""
