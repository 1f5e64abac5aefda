"""The process that PySpark forks its Python workers from, without last words when Java is gone.

A session that stops closes its connections to idle workers, and ends these a moment later. One that
notices the first before the second writes its error to nobody, and PySpark's own daemon prints a
traceback of that on the user's terminal (pyspark/daemon.py, `manager`).
"""

import socket

from pyspark import daemon

_serve = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Serve Java on the socket; its end is not an error, and ends this worker."""
    try:
        return _serve(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
