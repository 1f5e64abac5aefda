"""A lane without sockets, of compiled code or Python, that a property drives step by step."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from aerobee.client.cluster.routes import TopicRoute
from aerobee.client.errors import BrokerRefused
from aerobee.client.message import Message, MessageQueue, SendResult, SendStatus
from aerobee.client.sending.frames import SendHeaders
from aerobee.client.sending.outgoing import Packer, outgoing_of, read_reply
from aerobee.client.sending.selectors import RoundRobin
from aerobee.client.settings import ProducerSettings
from aerobee.remoting.command import FLAG_RESPONSE, Command
from aerobee.remoting.errors import AerobeeError, ConnectionLost, ProtocolError
from aerobee.remoting.frame import LENGTH_BYTES, check_length, decode_payload, encode_frame
from support.stand_ins.fake_cluster import FakeBroker, FakeCluster

QUEUES: Final = (MessageQueue("t", "a", 0), MessageQueue("t", "a", 1), MessageQueue("t", "b", 7))
FRAME_BYTES_MAX: Final = 1 << 20


class Ids:
    """Makes ids that two worlds share."""

    def at(self, now_ms: int) -> str:
        """Return an id of that millisecond."""
        return f"{now_ms:028X}0000"


class World:
    """One ring, one sender; `code` has the classes of either implementation."""

    def __init__(self, code: Any, limits: tuple[int, int], held_bytes_max: int) -> None:
        self.now_s, self.now_ms = 100.0, 1_700_000_000_000
        self.open = True
        self.later: list[Callable[[], object]] = []  # what the loop would call
        self.told: list[str] = []
        self.handles: list[Any] = []
        self.written = b""
        self.settings = ProducerSettings(body_bytes_max=4_000)
        self.headers = SendHeaders("g", self.settings)
        self.packer = Packer("g", self.settings)
        self.packer._ids = Ids()  # type: ignore[assignment]
        self.packer._ids.next = lambda: "N" * 32  # type: ignore[method-assign]
        route = TopicRoute("t", QUEUES, QUEUES, {})
        loop = SimpleNamespace(
            call_soon=lambda call, *words: self.later.append(lambda: call(*words)),
            create_future=lambda: None,
        )
        self.ring = code.Ring(self, lambda: self.now_s, lambda: self.now_ms, limits)
        self.ids, self.routes = Ids(), {"t": route}
        tables: Any = (self.routes, {}, {})
        self.sender = code.Sender(
            self, loop, tables, (held_bytes_max, 4_000, 3.0),
            (Message, SendResult, SendStatus.SEND_OK, self.ids),
        )  # fmt: skip
        heads = [
            code.Head(self.sender, queue, self.headers.parts(queue), self.headers.frame_of)
            for queue in QUEUES
        ]
        tables[1]["t"] = code.Heads(route, heads, RoundRobin(0))
        self.heads = heads

    # --- what a lane and an owner are asked ---

    def ring_of(self, queue: MessageQueue) -> Any:
        """Return the one ring, while it is open."""
        return self.ring if self.open else None

    def begin_turn(self) -> None:
        """Note it; the property flushes."""
        self.told.append("turn")

    def flush(self) -> None:
        """Take what is to be written."""
        self.written += self.ring.take()

    def less(self) -> None:
        """Note that there is room."""
        self.told.append(f"less {self.sender.held_bytes}")
        self.sender.wake_bytes = -1

    def unheard(self, handle: Any, error: BaseException) -> None:
        """Note a failure that nobody waits for."""
        self.told.append(f"unheard {error}")

    # --- steps of a property ---

    def send(self, message: Message, **how: Any) -> None:
        """Send a message: plainly, else as the checked path gives it to a lane."""
        words = {"queue": None, "key": None, "timeout_ms": None, "counted": True} | how
        order = ("queue", "key", "selector", "timeout_ms", "counted")
        handle = self.sender.begin(message, *(words.get(name) for name in order))
        self.told.append("plain" if handle is not None else "declined")
        if handle is None and self.open and message.body:
            try:
                outgoing = self.packer.pack(message, f"ID{len(self.handles):030}")
            except AerobeeError as error:
                self.told.append(f"refused {error}")
                return
            outgoing.born_ms, outgoing.body = self.now_ms, bytes(outgoing.body)
            handle = self.sender.offer(self.heads[0], self.ring, outgoing, None, 2, 1.0)
        if handle is not None:
            at = len(self.handles)
            handle.add_done_callback(lambda done: self.told.append(f"done {at} {done.done}"))
            self.handles.append(handle)

    def read(self, data: bytes) -> None:
        """Take what a broker sends, as client/cluster/channel.py and sending/lanes.py do."""
        at = 0
        try:
            while at < len(data):
                at = self.ring.feed(data, at)
                if len(data) - at < LENGTH_BYTES:
                    break
                end = at + LENGTH_BYTES + check_length(data, at, FRAME_BYTES_MAX)
                if end > len(data):
                    break
                self._answer(decode_payload(data[at + LENGTH_BYTES : end]))
                at = end
        except ProtocolError as error:
            self.told.append(f"no frame: {error}")
        self.ring.admit()
        self.flush()

    def _answer(self, command: Command) -> None:
        if not command.is_response:
            self.told.append(f"asked {command.code}")
            return
        handle = self.ring.pop(command.opaque)
        if handle is None:
            self.told.append(f"late {command.opaque}")
            return
        try:
            handle._settle(read_reply(command, outgoing_of(handle), handle.queue, "b:1"))
        except AerobeeError as error:
            handle._settle(error)

    def expire(self) -> None:
        """Fail those whose time is up."""
        for handle in self.ring.expire(self.now_s):
            handle._settle(BrokerRefused(handle.sent, None, outgoing_of(handle).properties))

    def lose(self) -> None:
        """Lose the connection."""
        for handle in self.ring.drain():
            handle._settle(ConnectionLost(f"{handle.sent} {outgoing_of(handle).properties}"))

    def turn(self) -> None:
        """End a turn of the loop."""
        self.flush()
        later, self.later = self.later, []
        for call in later:
            call()

    def state(self) -> Any:
        """Return all that can be seen from outside."""
        handles = [
            (
                each.done, each.sent, each.chosen, each.counted, each.message_id, each.deadline_s,
                str(each.error), each.result() if each.done and not each.error else repr(each),
            )
            for each in self.handles
        ]  # fmt: skip
        ring, sender = self.ring, self.sender
        counts = (
            ring.unanswered, ring.unanswered_bytes, ring.waiting_count, ring.earliest_s, ring.turn,
            sender.held, sender.held_bytes,
        )  # fmt: skip
        return self.written, self.told, handles, counts


def plain_ack(opaque: int, queue_id: int, offset: int, ext: dict[str, str]) -> bytes:
    """Return the frame by which a broker acknowledges a send."""
    fields = {"msgId": f"7F0000010000AD3F{offset:016X}", "queueId": str(queue_id)}
    fields |= {"queueOffset": str(offset)} | ext
    return encode_frame(Command(0, fields, b"", opaque, FLAG_RESPONSE))


async def done(*handles: Any) -> list[Any]:
    """Wait for handles; return the outcome of each, results and errors."""
    return await asyncio.gather(*handles, return_exceptions=True)


def is_stored(outcome: object) -> bool:
    """Say whether it is no error."""
    return not isinstance(outcome, BaseException)


QUEUE: Final = MessageQueue("t", "broker-a", 0)
"""A queue of a fake cluster."""


def bodies(broker: FakeBroker, queue: MessageQueue = QUEUE) -> list[bytes]:
    """Return what a queue has stored."""
    return [bytes(record.body) for record in broker.log[queue.topic, queue.queue_id]]


def everything(cluster: FakeCluster) -> list[bytes]:
    """Return what all brokers have stored."""
    return sorted(
        bytes(record.body)
        for broker in cluster.brokers
        for log in broker.log.values()
        for record in log
    )


def numbered(count: int) -> list[bytes]:
    """Return bodies."""
    return [b"%06d" % number for number in range(count)]
