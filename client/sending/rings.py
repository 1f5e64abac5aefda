"""Single sends on one connection: requests written one behind the other, and their answers.

`compiled/lane.pyx` does the same as C, which is used where it was built (`fast.py`). A reply that
is not as most are is left to the checked path, with nothing done.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from aerobee.client.message import SendResult, SendStatus
from aerobee.client.sending.handles import Bits, Handle, SendState
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import FLAG_RESPONSE
from aerobee.remoting.frame import LENGTH_BYTES, WORD_BYTES, WORDS_BYTES
from aerobee.remoting.headers.acks import Ack, decode_ack
from aerobee.remoting.message.layout import FRAME_FIELDS

OWN_OPAQUES: Final = 0x4000_0000  # and all above it: requests of lanes
OPAQUE_BITS: Final = 0x3FFF_FFFF
SLOTS: Final = 4_096  # of a ring
LOOK_S: Final = 0.001  # between two looks at the clock of the day
ACK_HEADER_BYTES_MAX: Final = 4_096

_encode_json: Final = msgspec.json.Encoder().encode
_pack_words: Final = FRAME_FIELDS.run().pack
_unpack_words: Final = FRAME_FIELDS.run().unpack_from


class RingLane(Protocol):
    """What a ring asks of its connection; see lanes.py."""

    def begin_turn(self) -> None:
        """Have `flush` called at the end of this turn of the loop."""

    def flush(self) -> None:
        """Write what the ring has now."""


class Ring:
    """Single sends of one connection.

    `limits` say how many messages, and bytes of bodies, may be unanswered: one more than the bytes
    allow is. A reply has to name the number of a request that is unanswered, so one that comes
    after its send's time was up hits nobody.
    """

    def __init__(
        self,
        lane: RingLane,
        clock_s: Callable[[], float],
        clock_ms: Callable[[], int],
        limits: tuple[int, int],
    ) -> None:
        self._lane = lane
        self._clock_s = clock_s
        self._clock_ms = clock_ms
        self._unanswered_max, self._unanswered_bytes_max = limits
        if not 0 < self._unanswered_max < SLOTS:
            raise ValueError("a ring has fewer slots")
        self._slots: list[Handle | None] = [None] * SLOTS
        self._waiting: deque[Handle] = deque()
        self._frames: list[bytes] = []
        self._dirty = False
        self._count = 0
        self._now_s, self._looked_s, self._now_ms = 0.0, -math.inf, 0
        self.frames_bytes = 0
        self.turn = 0
        self.unanswered = self.unanswered_bytes = 0
        self.earliest_s = math.inf
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether its connection has ended."""
        return self._closed

    def close(self) -> None:
        """Its connection has ended: nobody is to offer anything any more."""
        self._closed = True

    @property
    def lane(self) -> RingLane:
        """The connection that has it."""
        return self._lane

    @property
    def waiting_count(self) -> int:
        """How many messages wait for room."""
        return len(self._waiting)

    def offer(self, handle: Handle, timeout_s: float) -> None:
        """Have a message sent when its turn comes."""
        self._look()  # a program may take its time between two messages of a turn
        if not self._dirty:
            self._lane.begin_turn()
            self._dirty = True
        handle.deadline_s = self._now_s + timeout_s
        if self._waiting or not self._has_room():
            self._waiting.append(handle)
        else:
            self._pack(handle)
        self.earliest_s = min(self.earliest_s, handle.deadline_s)

    def _look(self) -> None:
        self._now_s = self._clock_s()
        if self._now_s - self._looked_s >= LOOK_S:
            self._now_ms, self._looked_s = self._clock_ms(), self._now_s

    def _has_room(self) -> bool:
        return (
            self.unanswered < self._unanswered_max
            and self.unanswered_bytes < self._unanswered_bytes_max
        )

    def _pack(self, handle: Handle) -> None:
        """Write the request of a message; it is unanswered from now on."""
        count = self._count
        while self._slots[count % SLOTS] is not None:  # its answer is late
            count += 1
        handle._opaque = OWN_OPAQUES | count & OPAQUE_BITS
        head: Any = handle.head
        if handle.bits & Bits.WHOLE_ID:
            frame = head.encode(handle._more, head.queue, handle._opaque)
        else:
            frame = self._frame(handle, head)
        self._slots[count % SLOTS] = handle
        self._count = count + 1
        self._frames.append(frame)
        self.frames_bytes += len(frame)
        handle.state = SendState.SENT
        assert handle._body is not None
        self.unanswered += 1
        self.unanswered_bytes += len(handle._body)

    def _frame(self, handle: Handle, head: Any) -> bytes:
        handle._begin = head.sender.next_id(self._now_ms)
        before_time, before_properties, before_opaque, behind = head.parts
        said = f"{handle._more or ''}UNIQ_KEY\x01{handle._begin}\x02"
        if handle._keys:
            said += f"KEYS\x01{handle._keys}\x02"
        if handle._tags:
            said += f"TAGS\x01{handle._tags}\x02"
        numbers = b"%d" % self._now_ms, b"%d" % handle._opaque
        body = handle._body
        assert body is not None
        begin = b"".join((before_time, numbers[0], before_properties))
        header = b"".join((begin, _encode_json(said), before_opaque, numbers[1], behind))
        size = len(header)
        return b"".join((_pack_words(WORD_BYTES + size + len(body), size), header, body))

    def take(self) -> bytes:
        """Return the requests that were written since the last time."""
        self.turn += 1
        self._dirty = False
        taken = b"".join(self._frames)
        self._frames.clear()
        self.frames_bytes = 0
        return taken

    def admit(self) -> None:
        """Write the requests of those that wait, as far as there is room now."""
        if self._waiting and self._has_room():
            self._look()
            while self._waiting and self._has_room():
                self._pack(self._waiting[0])
                self._waiting.popleft()

    def feed(self, data: bytes, at: int) -> int:
        """Settle what plain acknowledgements answer; return where the first other frame begins."""
        while len(data) - at > WORDS_BYTES:
            length, size = _unpack_words(data, at)
            end = at + LENGTH_BYTES + length
            if length != size + WORD_BYTES or size > ACK_HEADER_BYTES_MAX or end > len(data):
                break
            try:
                ack = decode_ack(data[at + WORDS_BYTES : end])
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                break
            if ack.code != ResponseCode.SUCCESS or ack.flag != FLAG_RESPONSE:
                break
            handle = self._found(ack.opaque)
            if handle is None or not _is_plain(ack, handle):
                break
            at = end
            self._forget(handle)
            handle._settle(_result(ack, handle))
        return at

    def _found(self, opaque: int) -> Handle | None:
        if not OWN_OPAQUES <= opaque <= OWN_OPAQUES + OPAQUE_BITS:
            return None
        handle = self._slots[opaque % SLOTS]
        return handle if handle is not None and handle._opaque == opaque else None

    def _forget(self, handle: Handle) -> None:
        assert handle._body is not None
        self._slots[handle._opaque % SLOTS] = None
        self.unanswered -= 1
        self.unanswered_bytes -= len(handle._body)

    def pop(self, opaque: int) -> Handle | None:
        """Take out the message that an unusual reply is for; None where nobody waits for it."""
        handle = self._found(opaque)
        if handle is not None:
            self._forget(handle)
        return handle

    def expire(self, now_s: float) -> list[Handle]:
        """Take out those whose time is up, the ones that were written before those that wait."""
        gone = [handle for handle in self._in_order() if handle.deadline_s <= now_s]
        for handle in gone:
            self._forget(handle)
        gone += [handle for handle in self._waiting if handle.deadline_s <= now_s]
        self._waiting = deque(handle for handle in self._waiting if handle.deadline_s > now_s)
        left = [*self._in_order(), *self._waiting]
        self.earliest_s = min((handle.deadline_s for handle in left), default=math.inf)
        return gone

    def drain(self) -> list[Handle]:
        """Take out all, the ones that were written before those that wait."""
        gone = self._in_order()
        for handle in gone:
            self._forget(handle)
        gone += self._waiting
        self._waiting.clear()
        self.earliest_s = math.inf
        return gone

    def _in_order(self) -> list[Handle]:
        """Return those that are unanswered, the first one first."""
        begin = self._count % SLOTS  # the slot that is used next: the longest ago is behind it
        slots = self._slots[begin:] + self._slots[:begin]
        return [handle for handle in slots if handle is not None]


def _is_plain(ack: Ack, handle: Handle) -> bool:
    """Whether a reply says nothing but what most say."""
    fields, head = ack.extFields, handle.head
    return (
        fields.queueId == head.queue.queue_id
        and fields.batchUniqId is None
        and fields.recallHandle is None
        and fields.transactionId in (None, handle._begin)
    )


def _result(ack: Ack, handle: Handle) -> SendResult:
    fields = ack.extFields
    return SendResult(
        SendStatus.SEND_OK,
        handle._begin,
        fields.msgId,
        handle.head.queue,
        fields.queueOffset,
        fields.transactionId,
        fields.MSG_REGION,
        None,
        fields.TRACE_ON != "false",
    )
