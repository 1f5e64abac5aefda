"""Pulls that come again with other numbers: what compiled code has to know, and to ask, of them.

A consumer's next pull differs from its last one in three numbers: where it reads, what it commits,
and the number of the request. Once a header was served here that is all that compiled code looks
for (`compiled/repeated_pulls.pxi`): it answers all such pulls of a socket read that find messages,
as `PullProcessor.serve` would. What a pull may read is asked of the same checks as ever, again as
soon as any topic, group or member has changed: each table has a version that another one replaces
then. Where the queue begins and ends is looked at in each read of the socket.
"""

import mmap
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from aerobee.broker.compiled.choice import copied, repeated_pulls, resident
from aerobee.broker.members.group import GroupQueue
from aerobee.broker.members.subscriptions import SqlFilter
from aerobee.broker.pulls.broadcasts import FROM_PROXY
from aerobee.broker.pulls.checks import Allowed
from aerobee.broker.pulls.limits import PullLimits
from aerobee.broker.pulls.replies import found_pieces
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.tables.committed import SEPARATOR
from aerobee.remoting.codes import PullSysFlag, RequestCode
from aerobee.remoting.command import Codec
from aerobee.remoting.headers.envelopes import DECODE_ENVELOPE, DECODE_PULL
from aerobee.remoting.headers.pull import PullMessageRequest
from aerobee.remoting.net.connection import Connection
from aerobee.storage.layout import ENTRY_BYTES
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.reads.cold.warm_log import WarmLog
from aerobee.storage.reads.reading import READ_BYTES_LEAST, READ_BYTES_MAX

if TYPE_CHECKING:
    from aerobee.broker.pulls.parts import Pulling
    from aerobee.broker.pulls.pull import Pull

Check: TypeAlias = Callable[[Connection, PullMessageRequest, int], Allowed]
ServePulls: TypeAlias = Callable[
    [Connection, bytes, int, int, int, list[bytes | memoryview]], tuple[int, int, int] | None
]
"""Answers many pulls at once: see RepeatedPulls.serve in `compiled/record_runs.pyi`."""

PULLS: Final = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
_NUMBERS: Final = re.compile(rb'("queueOffset":"|"commitOffset":"|"opaque":)(-?[0-9]+)')
_decode_envelope = DECODE_ENVELOPE[Codec.JSON]
_decode_pull = DECODE_PULL[Codec.JSON]


class Known(NamedTuple):
    """What a pull was allowed when it was learned."""

    header: PullMessageRequest  # of which the offsets do not matter
    allowed: Allowed
    code: int  # of the request
    key: GroupQueue
    asker: object  # who may have it again, where that is asked


class Repeats:
    """The `World` of compiled code (`.pyi`), and the learning; each `PullProcessor` has one."""

    signs = False

    def __init__(self, settings: BrokerSettings, parts: "Pulling", check: Check) -> None:
        store = parts.writing.store
        self._check = check
        self._parts = parts
        self._log = store.commit_log
        self._offsets = parts.tables.offsets
        self._hooks = parts.hooks
        self._owners = parts.owners
        self.tables = parts.tables.topics, parts.tables.groups, parts.members
        self.last_pulled, self.metrics = parts.tables.offsets.last_pulled, parts.metrics
        self.steady = not settings.reject_pull_consumer_enable  # else it matters who pulls
        self.writable = True
        self.fresh = False  # the connection of this run has just come
        self._groups = parts.broadcasts.groups if settings.enable_broadcast_offset_store else None
        self._limits = PullLimits.of(settings)
        limits = store.settings
        self._scan_max = limits.filter_scan_bytes // ENTRY_BYTES
        self.limits = (
            limits.transfer_count_disk, limits.transfer_bytes_disk,
            limits.transfer_count_memory, limits.transfer_bytes_memory,
        )  # fmt: skip
        self.file_at = self._log.file_at
        self.in_memory = store.in_memory
        self._warm = WarmLog(self._log, resident(wanted=True), copied(wanted=True))
        wanted = settings.compiled_fast_path and not settings.slave_read_enable
        self._repeated = repeated_pulls(self, wanted=wanted)
        self.serve: ServePulls | None
        self.serve = self._repeated.serve if self._repeated is not None else None

    def learn(self, pull: "Pull", allowed: Allowed) -> None:
        """Take note of a pull that has just found messages, if compiled code has asked for it.

        Its header with other numbers must be the same pull with these numbers: so it is never
        mistaken which of its bytes are they, whatever else a header has or has twice.
        """
        repeated, wanted = self._repeated, allowed[1]
        if repeated is None or isinstance(wanted, SqlFilter) or pull.codec != Codec.JSON:
            return
        if pull.header.topic in self._parts.views.topics:
            return  # what is read depends on the offset
        header, opaque, code = pull.header, pull.opaque, pull.request_code
        text = repeated.missed(header.queue_offset, header.commit_offset, opaque)
        if text is None or code not in PULLS or self._broadcasts(header):
            return
        text, count = _NUMBERS.subn(_raised, text)
        try:
            envelope = _decode_envelope(text)
            again = _decode_pull(envelope.ext_fields)
        except (msgspec.MsgspecError, UnicodeError):
            return
        expected = msgspec.structs.replace(
            header, queue_offset=header.queue_offset + 1, commit_offset=header.commit_offset + 1
        )
        outer = (envelope.code, envelope.flag, envelope.opaque)
        if count != 3 or outer != (code, 0, opaque + 1) or again != expected:
            return
        topic, group = allowed[2:]
        messages_max, bytes_max = self._limits.messages_of(header), self._limits.bytes_of(header)
        names = header.topic, header.consumer_group
        repeated.learn(
            Known(
                header,
                allowed,
                code,
                GroupQueue(names[1], names[0], header.queue_id),
                self.asker(pull.connection),
            ),
            (SEPARATOR.join(names), names, header.queue_id),
            found_pieces(group.group_sys_flag, topic.topic_sys_flag),
            wanted,
            messages_max,
            min(max(bytes_max, READ_BYTES_LEAST), READ_BYTES_MAX),
            min(messages_max, 256) if wanted is None else max(self._scan_max, messages_max),
            bool(header.sys_flag & PullSysFlag.COMMIT_OFFSET),
        )

    def asker(self, connection: Connection) -> object:
        """Return whose pull it is; here nobody is asked."""
        return None

    def begin(self, connection: Connection) -> int:
        """Commit what this turn appended; see `World`."""
        owners = self._owners
        if connection in owners.watched or self._offsets.resets or self._hooks.after_pull:
            return -1
        self.fresh = connection in owners.fresh
        self._parts.writing.tick.commit_log()
        self.writable = self._log.writable
        return self._warm.hot

    def is_settled(self, connection: Connection, known: Known) -> bool:
        """Whether nobody has to look at the pulls of a queue on a connection that has just come."""
        return self._owners.is_settled(connection, known.key)

    def open(
        self, connection: Connection, known: Known, offset: int
    ) -> tuple[mmap.mmap | bytearray, int, int, int, int, int, ConsumeQueue] | None:
        """Make the checks of a pull, and say where its queue is; see `World`."""
        header = known.header
        try:
            allowed = self._check(connection, header, known.code)
            if allowed != known.allowed or self._broadcasts(header):
                return None
            stored = allowed[0].stored
            low, high = stored.min_offset, stored.max_offset
            if not low <= offset < high:
                return None
            memory, at, count = stored.run(offset, high - offset)
        except Exception:  # noqa: BLE001  whoever serves it alone finds out, and says so
            return None
        synced = stored.flushed_offset if self.writable else high
        return memory, offset - at // ENTRY_BYTES, offset + count, low, high, synced, stored

    def commit(self, known: Known, offset: int) -> None:
        """Take the offset that came with a pull."""
        header = known.header
        self._offsets.commit(header.consumer_group, header.topic, header.queue_id, offset)

    def served(
        self, known: Known, next_offset: int, pulls: int, messages: int, size_bytes: int
    ) -> None:
        """Note how far a pull has got, and count what it was given."""
        header = known.header
        group, topic = header.consumer_group, header.topic
        self._offsets.pulled(group, topic, header.queue_id, next_offset)
        self._parts.metrics.pulled(topic, group, messages, size_bytes, pulls)

    def _broadcasts(self, header: PullMessageRequest) -> bool:
        """Whether somebody keeps the offsets of who pulls."""
        groups = self._groups
        return groups is not None and (
            header.consumer_group in groups or header.request_source == FROM_PROXY
        )


def _raised(number: "re.Match[bytes]") -> bytes:
    return b"%b%d" % (number[1], int(number[2]) + 1)
