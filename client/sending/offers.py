"""Messages of one producer that go the plain way: looked at, counted, given to a connection.

`compiled/lane.pyx` does the same as C, which is used where it was built (`fast.py`). A message that
is not as most are is declined, with nothing done, and made ready by the checked path.
"""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence
from typing import Any, Final

from aerobee.client.message import Message, MessageQueue, SendResult
from aerobee.client.sending.handles import HANDLE_BYTES, Bits, Handle, SendOwner, SendState
from aerobee.client.sending.rings import Ring
from aerobee.client.sending.selectors import RoundRobin, by_key
from aerobee.remoting.message.message_id import UniqueIds
from aerobee.remoting.message.properties import Property

FLUSH_BYTES: Final = 65_536  # are written within a turn
SAID_BYTES_MAX: Final = 30_000  # of properties that are written here
ID_BEGIN_CHARACTERS: Final = 28  # of an id, before its number
SAID: Final = frozenset(
    {
        Property.UNIQ_KEY,
        Property.KEYS,
        Property.TAGS,
        Property.DELAY,
        Property.TRAN_MSG,
        Property.MSG_TYPE,
    }
)
"""Properties of a user that are looked at in full."""


class Head:
    """The parts of a request that all messages to one queue share."""

    __slots__ = ("encode", "parts", "queue", "ring", "sender", "turn")

    def __init__(
        self,
        sender: "Sender",
        queue: MessageQueue | None,
        parts: tuple[bytes, bytes, bytes, bytes],
        encode: Callable[[Any, MessageQueue, int], bytes],
    ) -> None:
        self.sender = sender
        self.queue = queue
        self.parts = parts
        self.encode = encode
        self.ring: Ring | None = None
        self.turn = -1

    @property
    def owner(self) -> SendOwner:
        """Who is told of what becomes of its messages."""
        return self.sender.owner


class Heads:
    """The queues of a topic, as one route has them."""

    __slots__ = ("all", "heads", "route", "turns")

    def __init__(self, route: object, heads: list[Head], turns: RoundRobin) -> None:
        self.route = route
        self.all = heads
        self.turns = turns
        self.heads = {head.queue: head for head in heads}


class Sender:
    """What one producer sends in the plain way.

    `tables` are the routes by topic, the queues by topic (`Heads`), and whatever has to be sent
    before; `limits` the bytes that may be held, of a body, and the seconds of a send; `kinds` the
    class of messages and results, the status of a success, and who makes ids.
    """

    def __init__(
        self,
        owner: SendOwner,
        loop: AbstractEventLoop,
        tables: tuple[dict[str, Any], dict[str, Heads], dict[Any, Any]],
        limits: tuple[int, int, float],
        kinds: tuple[type[Message], type[SendResult], object, UniqueIds],
    ) -> None:
        self.owner = owner
        self.loop = loop
        self._routes, self._heads, self._lines = tables
        self._held_bytes_max, self._body_bytes_max, self._timeout_s = limits
        self._kind, _, _, self._ids = kinds
        self.held = self.held_bytes = 0
        self.wake_bytes = -1
        self._id_ms = -1
        self._id_begin = ""
        self._number = 0

    def begin(
        self,
        message: Message,
        queue: MessageQueue | None,
        key: str | int | None,
        selector: object,
        timeout_ms: int | None,
        counted: bool,
    ) -> Handle | None:
        """Send a message in the plain way; None where that is not possible."""
        if selector is not None or self._lines or type(message) is not self._kind:
            return None
        body, topic = message.body, message.topic
        keys: object = message.keys
        if type(body) is not bytes or type(topic) is not str:
            return None
        if not 0 < len(body) <= self._body_bytes_max or message.flag or message.delay_level:
            return None
        cost = len(body) + HANDLE_BYTES
        if counted and self.held_bytes >= self._held_bytes_max:
            return None  # refused there
        heads = self._heads.get(topic)
        if heads is None or self._routes.get(topic) is not heads.route:
            return None
        if timeout_ms is not None and (type(timeout_ms) is not int or timeout_ms <= 0):
            return None
        keys = None if keys == () and type(keys) is tuple else keys
        tags = message.tags
        if tags is not None and (type(tags) is not str or " " in tags or "|" in tags):
            return None
        if not _is_short(tags) or not _is_short(keys):
            return None
        more = _written(message.properties) if message.properties else ""
        head = None if more is None else _chosen(heads, queue, key)
        if head is None or (ring := self._ring(head)) is None:
            return None
        handle = Handle(head, body, message.tags, keys, more)  # type: ignore[arg-type] # looked at
        handle.bits = Bits.COUNTED if counted else 0
        if queue is not None or key is not None:
            handle.bits |= Bits.CHOSEN
        else:
            heads.turns.turn += 1
        self._place(
            ring, handle, cost, self._timeout_s if timeout_ms is None else timeout_ms / 1000
        )
        return handle

    def _ring(self, head: Head) -> Ring | None:
        ring = head.ring
        if ring is None or head.turn != ring.turn or ring.closed:
            ring = head.ring = self.owner.ring_of(head.queue) if head.queue is not None else None
            if ring is not None:
                head.turn = ring.turn
        return ring

    def offer(
        self,
        head: Head,
        ring: Ring,
        outgoing: Any,
        handle: Handle | None,
        bits: int,
        timeout_s: float,
    ) -> Handle:
        """Send what was made ready in Python, under a new handle or one that waited elsewhere."""
        cost = 0
        if handle is None:
            handle = Handle(head, outgoing.body, None, None, outgoing)
            handle.bits = bits
            cost = len(outgoing.body) + HANDLE_BYTES
        else:
            handle.head, handle._body, handle._more = head, outgoing.body, outgoing
            handle.state = SendState.WAITING
        handle.bits |= Bits.WHOLE_ID
        handle._begin = outgoing.message_id
        self._place(ring, handle, cost, timeout_s)
        return handle

    def hold(
        self, head: Head, more: object, body_bytes: int, bits: int, deadline_s: float
    ) -> Handle:
        """Return the handle of a message that waits elsewhere, which is counted from now on."""
        handle = Handle(head, None, None, None, more)
        handle.bits = bits | Bits.COUNTED
        handle.state, handle.deadline_s = SendState.ELSEWHERE, deadline_s
        handle._cost = body_bytes + HANDLE_BYTES
        self.held += 1
        self.held_bytes += handle._cost
        return handle

    def _place(self, ring: Ring, handle: Handle, cost: int, timeout_s: float) -> None:
        """Give a message to its connection, and count it."""
        ring.offer(handle, timeout_s)
        if cost and handle.counted:
            handle._cost = cost
            self.held += 1
            self.held_bytes += cost
        if ring.frames_bytes >= FLUSH_BYTES:
            ring.lane.flush()

    def forget_id(self) -> None:
        """Ids begin in another way from now on: this is the child of a fork."""
        self._id_ms = -1

    def next_id(self, now_ms: int) -> str:
        """Return the id of one more message."""
        if self._id_ms != now_ms:
            self._id_ms, self._id_begin = now_ms, self._ids.at(now_ms)[:ID_BEGIN_CHARACTERS]
        number, self._number = self._number, (self._number + 1) & 0xFFFF
        return f"{self._id_begin}{number:04X}"


def _is_text(text: object) -> bool:
    """Whether it is written in JSON as it is."""
    return (
        type(text) is str
        and text.isascii()
        and text.isprintable()
        and '"' not in text
        and "\\" not in text
    )


def _is_short(text: object) -> bool:
    return text is None or (
        type(text) is str and _is_text(text) and len(text) <= SAID_BYTES_MAX // 4
    )


def _written(properties: object) -> str | None:
    """Return a user's properties as they travel; None where they are not plain."""
    if type(properties) is not dict:
        return None
    pieces, size = [], 0
    for name, value in properties.items():
        if not _is_text(name) or not _is_text(value) or not name or not value or name in SAID:
            return None
        pieces.append(f"{name}\x01{value}\x02")
        size += len(name) + len(value) + 12  # as JSON has them
    return "".join(pieces) if size <= SAID_BYTES_MAX // 2 else None


def _chosen(heads: Heads, queue: MessageQueue | None, key: str | int | None) -> Head | None:
    """Return the queue that was chosen, else whose turn it is; None for an unusual choice."""
    if queue is not None:
        return heads.heads.get(queue) if key is None and type(queue) is MessageQueue else None
    if key is None:
        return heads.all[(heads.turns.turn + 1) % len(heads.all)]
    if type(key) is not int and not (type(key) is str and key.isascii()):
        return None
    places: Sequence[Any] = range(len(heads.all))
    place: Any = by_key(key)(places, None)  # type: ignore[arg-type] # it looks at neither
    head: Head = heads.all[place]
    return head
