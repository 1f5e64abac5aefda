"""The only part of `remoting` that touches sockets: connections, servers and TLS."""
