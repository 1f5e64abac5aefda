"""A pull as a value: what was asked, by whom, and how often it had to fetch."""

from aerobee.remoting.headers.pull import PullMessageRequest
from aerobee.remoting.net.connection import Connection


class Pull:
    """One pull request while the broker works on it or holds it."""

    __slots__ = ("codec", "connection", "fetches", "header", "offset", "opaque", "request_code")

    def __init__(
        self,
        connection: Connection,
        header: PullMessageRequest,
        opaque: int,
        codec: int,
        request_code: int,
    ) -> None:
        self.connection = connection
        self.header = header
        self.opaque = opaque
        self.codec = codec
        self.request_code = request_code
        self.offset = header.queue_offset  # moves past unwanted messages while the pull is held
        self.fetches = 0  # how often what it reads was not in memory
