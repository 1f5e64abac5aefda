"""Functions of the embedding program that see messages pass; without any, nothing is paid."""

from collections.abc import Callable

import msgspec

from aerobee.remoting.net.connection import Connection


class SendEvent(msgspec.Struct, frozen=True):
    """One send request, before (`queue_offset` is -1) or after it was stored."""

    connection: Connection
    producer_group: str
    topic: str
    queue_id: int
    properties: str
    body_bytes: int
    code: int = 0
    queue_offset: int = -1


class PullEvent(msgspec.Struct, frozen=True):
    """One pull request that was answered."""

    connection: Connection
    group: str
    topic: str
    queue_id: int
    offset: int
    code: int
    count: int
    size_bytes: int


class BrokerHooks:
    """Hooks by moment (SendMessageHook, ConsumeMessageHook).

    A hook before a send may raise RequestError to refuse the message. While there is any hook on
    sends, every message takes the checked path; `on_added` lets the fast path notice.
    """

    def __init__(self, on_added: Callable[[], None]) -> None:
        self._on_added = on_added
        self.before_send: tuple[Callable[[SendEvent], None], ...] = ()
        self.after_send: tuple[Callable[[SendEvent], None], ...] = ()
        self.after_pull: tuple[Callable[[PullEvent], None], ...] = ()

    @property
    def watch_sends(self) -> bool:
        """Whether any hook wants to see sends."""
        return bool(self.before_send or self.after_send)

    def add(
        self,
        *,
        before_send: Callable[[SendEvent], None] | None = None,
        after_send: Callable[[SendEvent], None] | None = None,
        after_pull: Callable[[PullEvent], None] | None = None,
    ) -> None:
        """Register functions; each is called on the event loop and must not block."""
        if before_send is not None:
            self.before_send += (before_send,)
        if after_send is not None:
            self.after_send += (after_send,)
        if after_pull is not None:
            self.after_pull += (after_pull,)
        self._on_added()
