"""A proxy that loses answers to sends, and the connection with them, as a bad network does."""

import random
import re
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

SEND: Final = re.compile(rb'"code":\s*(310|320|10)\b')
OPAQUE: Final = re.compile(rb'"opaque":\s*(-?\d+)')
KEY: Final = re.compile(rb"UNIQ_KEY(?:\\u0001|\x01)([0-9A-Fa-f]+)")


class LossyProxy:
    """Passes frames on; of each message's first answers the share `lost` never comes."""

    def __init__(self, listen: tuple[str, int], broker: tuple[str, int], lost: float) -> None:
        self._broker = broker
        self._lost = lost
        self._dice = random.Random(17)
        self._decided: set[bytes] = set()  # keys, by which the first answer is known
        self._listener = socket.create_server(listen)
        self._sockets: set[socket.socket] = set()
        self.dropped = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        for each in list(self._sockets):
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    broker = socket.create_connection(self._broker)
                except OSError:  # it does not run yet
                    client.close()
                    continue
                self._sockets |= {client, broker}
                doomed: set[bytes] = set()  # opaques of sends whose answers are to be lost
                for source, target, back in ((client, broker, False), (broker, client, True)):
                    given = (source, target, doomed, back)
                    threading.Thread(target=self._pass, args=given, daemon=True).start()

    def _pass(
        self, source: socket.socket, target: socket.socket, doomed: set[bytes], back: bool
    ) -> None:
        with suppress(OSError, EOFError):
            while True:
                head = _exactly(source, 4)
                frame = _exactly(source, int.from_bytes(head, "big"))
                header = frame[4 : 4 + int.from_bytes(frame[1:4], "big")]
                opaque = OPAQUE.search(header)
                if back and opaque and opaque[1] in doomed:
                    self.dropped += 1
                    break
                if not back and opaque and SEND.search(header) and self._is_lost(frame):
                    doomed.add(opaque[1])
                target.sendall(head + frame)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _is_lost(self, frame: bytes) -> bool:
        """Decide, once for each message, whether its answer is lost."""
        key = KEY.search(frame)
        if key is None or key[1] in self._decided:
            return False
        self._decided.add(key[1])
        return self._dice.random() < self._lost


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        some = source.recv(count - len(data))
        if not some:
            raise EOFError
        data += some
    return data
