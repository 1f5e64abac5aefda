"""How far each group has consumed each queue: the committed offsets.

Offsets count messages from 0; a committed offset is the next one to consume. They are kept in
`config/consumerOffset.json` under `topic@group`, written every flushConsumerOffsetInterval and at
the end: after a crash a group consumes a few seconds' worth again (ConsumerOffsetManager).
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from aerobee.broker.rules.own_groups import OWN_GROUPS
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.tables.table_file import TableFile, decode_table
from aerobee.remoting.bodies import ConsumerOffsets, DataVersion
from aerobee.storage.grouped_keys import GroupedKeys

log = logging.getLogger(__name__)

SEPARATOR: Final = "@"
VERSION_STEP: Final = 500  # consumerOffsetUpdateVersionStep
OFFSETS_MAX: Final = 2_000_000  # offsetsMax
TOPIC, GROUP = 0, 1  # of a key
ENTRIES_PER_TURN: Final = 200  # encoded between two looks at the sockets, under a millisecond

_QUOTED_NUMBER: Final = re.compile(rb'"(-?\d+)":')
_BARE_NUMBER: Final = re.compile(rb"([{,]\s*)(-?\d+)\s*:")  # no name can hold such a text


class OffsetTable:
    """Committed offsets by topic@group and queue.

    The table is encoded entry by entry, and only what has changed, so that a large one neither
    stalls the loop nor costs more than its traffic.
    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        folder: Path,
        *,
        version_step: int = VERSION_STEP,
        offsets_max: int = OFFSETS_MAX,
    ) -> None:
        self._now_ms = now_ms
        self._version_step = version_step
        self._offsets_max = offsets_max
        self._table: dict[str, dict[int, int]] = {}
        self.last_pulled: dict[
            str, dict[int, int]
        ] = {}  # by topic@group; compiled code writes there
        self._committed_keys = _grouped(self._table)
        self._pulled_keys = _grouped(self.last_pulled)
        self._count = self._pulled_count = 0  # offsets in each of them
        self._encoded: dict[str, bytes] = {}
        self._stale: set[str] = set()  # keys whose encoded form is missing or old
        self._commits = 0
        self.resets: dict[tuple[str, str, int], int] = {}  # by group, topic and queue: not yet told
        self.data_version = DataVersion(timestamp=now_ms())
        self.file = TableFile(folder / "consumerOffset.json", self.encode)
        self.file.mark()

    def apply(self, settings: BrokerSettings) -> None:
        """Take settings that were changed at run time; what is there already stays."""
        self._version_step = settings.consumer_offset_update_version_step
        self._offsets_max = settings.offsets_max

    def load(self) -> None:
        """Read consumerOffset.json, if there is one."""
        stored = self.file.load(decode_offsets)
        if stored is not None:
            self._table = stored.offset_table
            self._committed_keys = _grouped(self._table)
            self._stale = set(self._table)
            self._count = sum(map(len, self._table.values()))
            self.data_version = stored.data_version or self.data_version

    def committed(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the next offset that a group will consume, None if it never committed one."""
        queues = self._table.get(topic + SEPARATOR + group)
        return None if queues is None else queues.get(queue_id)

    def of_group(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed offsets of one group in one topic, by queue."""
        return dict(self._table.get(topic + SEPARATOR + group, {}))

    def commit(self, group: str, topic: str, queue_id: int, offset: int, remote: str = "") -> bool:
        """Remember that a group has consumed everything before `offset`, even if that goes back.

        A commit is ignored while its queue's consumer does not know yet of a reset. Return False
        where there is no room for a further queue of a group, and for a group of the broker's own.
        """
        if self.resets and (group, topic, queue_id) in self.resets:
            return True
        return self._commit(group, topic, queue_id, offset, remote)

    def commit_own(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note how far the broker itself is done, under the name of a group of its own."""
        self._commit(group, topic, queue_id, offset, own=True)

    def _commit(
        self,
        group: str,
        topic: str,
        queue_id: int,
        offset: int,
        remote: str = "",
        *,
        own: bool = False,
    ) -> bool:
        key = topic + SEPARATOR + group
        queues = self._table.get(key)
        known = None if queues is None else queues.get(queue_id)
        if known == offset:
            return True
        if not own and group in OWN_GROUPS:
            return False
        if known is None:
            if self._count >= self._offsets_max and not own:
                return False
            self._count += 1
        elif offset < known:
            log.warning(
                "offset_went_back key=%s queue=%d from=%d to=%d remote=%s",
                key,
                queue_id,
                known,
                offset,
                remote,
            )
        if queues is None:
            queues = self._table[key] = {}
        queues[queue_id] = offset
        self._changed(key)
        return True

    def lower(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Let a group that is known go on at an earlier offset, at a start and without a line.

        A member that outlived the broker is told at its next pull: it may be far beyond, where it
        would never see what is stored below. Its late commits are ignored until then.
        """
        key = topic + SEPARATOR + group
        self._table[key][queue_id] = offset
        if SEPARATOR not in group:  # broadcasting members keep offsets of their own
            self.resets[group, topic, queue_id] = offset
        self._changed(key)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Let a group go on at `offset`, from its next pull on (assignResetOffset).

        Nothing happens to a group of the broker's own.
        """
        if group in OWN_GROUPS:
            return
        self.resets.pop((group, topic, queue_id), None)
        self.commit(group, topic, queue_id, offset)
        self.resets[group, topic, queue_id] = offset

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return where a group has to go on, once: it is told now (queryThenEraseResetOffset)."""
        return self.resets.pop((group, topic, queue_id), None)

    def pulled(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember where a group pulls, for those who watch its progress."""
        queues = self.last_pulled.setdefault(topic + SEPARATOR + group, {})
        if queue_id not in queues:
            if self._pulled_count >= self._offsets_max:
                return
            self._pulled_count += 1
        queues[queue_id] = offset

    def pulled_entries(self) -> Iterator[tuple[str, str, int, int]]:
        """Yield topic, group, queue and the offset behind its latest pull; the table may change."""
        for key in list(self.last_pulled):
            topic, _, group = key.partition(SEPARATOR)
            for queue_id, offset in list(self.last_pulled.get(key, {}).items()):
                yield topic, group, queue_id, offset

    def pull_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset of a group's latest pull, else its committed one."""
        offset = self.last_pulled.get(topic + SEPARATOR + group, {}).get(queue_id)
        return self.committed(group, topic, queue_id) if offset is None else offset

    def __len__(self) -> int:
        """How many pairs of a topic and a group have committed."""
        return len(self._table)

    def pulled_by(self, group: str, topic: str) -> dict[int, int]:
        """Return the offsets behind a group's latest pulls in one topic, by queue."""
        return dict(self.last_pulled.get(topic + SEPARATOR + group, {}))

    def entries(self) -> Iterator[tuple[str, str, dict[int, int]]]:
        """Yield topic, group and committed offsets by queue; the table may change meanwhile."""
        for key in list(self._table):
            topic, _, group = key.partition(SEPARATOR)
            queues = self._table.get(key)
            if queues is not None:
                yield topic, group, queues

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which a group has committed."""
        return [topic for topic, name in self._split(group, GROUP) if name == group]

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have committed in a topic."""
        return [group for _, group in self._split(topic, TOPIC) if SEPARATOR not in group]

    def delete_group(self, group: str) -> None:
        """Forget all offsets of a group, unless it is one of the broker's own."""
        if group not in OWN_GROUPS:
            self._delete(group, GROUP)

    def delete_topic(self, topic: str) -> None:
        """Forget all offsets in a topic."""
        self._delete(topic, TOPIC)

    @property
    def commits(self) -> int:
        """How many changes there have been since the start."""
        return self._commits

    def pieces(self) -> dict[str, bytes]:
        """Return each entry's text by its key, as of the last flush."""
        return dict(self._encoded)

    def encode(self) -> bytes:
        """Return the text of consumerOffset.json."""
        while self._stale:
            self._encode_entry(self._stale.pop())
        return self._joined()

    async def flush(self) -> None:
        """Write the file if anything has changed, without stalling the loop.

        Raises OSError of the disk; the changes stay marked and the next call tries again.
        """
        if not self.file.dirty:
            return
        while self._stale:
            for _ in range(min(len(self._stale), ENTRIES_PER_TURN)):
                self._encode_entry(self._stale.pop())
            await asyncio.sleep(0)
        await self.file.flush()

    def _encode_entry(self, key: str) -> None:
        if key not in self._table:
            self._encoded.pop(key, None)
            return
        queues = msgspec.json.encode(dict(sorted(self._table[key].items())))
        self._encoded[key] = b"%b:%b" % (
            msgspec.json.encode(key),
            _QUOTED_NUMBER.sub(rb"\1:", queues),  # fastjson writes integer keys without quotes
        )

    def _joined(self) -> bytes:
        version = msgspec.json.encode(self.data_version)
        entries = b",\n".join(self._encoded.values())
        return b'{"dataVersion":%b,"offsetTable":{\n%b\n}}' % (version, entries)

    def _changed(self, key: str) -> None:
        self._stale.add(key)
        self.file.mark()
        self._commits += 1
        if self._commits % self._version_step == 0:
            self.data_version = msgspec.structs.replace(
                self.data_version, timestamp=self._now_ms(), counter=self.data_version.counter + 1
            )

    def _split(self, name: str, by: int) -> Iterator[tuple[str, str]]:
        for key in self._committed_keys.of(name, by):
            topic, found, group = key.partition(SEPARATOR)
            if found:
                yield topic, group

    def _delete(self, name: str, by: int) -> None:
        """Forget what has a name as its topic, or as its group: its broadcasts, g@..., too."""
        for reset in [reset for reset in self.resets if reset[1 - by] == name]:
            del self.resets[reset]
        for key in self._committed_keys.of(name, by):
            self._count -= len(self._table[key])
            self._committed_keys.remove(key)
            self._changed(key)
        for key in self._pulled_keys.of(name, by):
            self._pulled_count -= len(self.last_pulled[key])
            self._pulled_keys.remove(key)


def _grouped(table: dict[str, dict[int, int]]) -> GroupedKeys[str]:
    """Return the keys of a table by topic and by group."""
    return GroupedKeys(table, lambda key: key.split(SEPARATOR, 1)[0], _group_of)


def _group_of(key: str) -> str:
    return key.split(SEPARATOR, 2)[1] if SEPARATOR in key else ""


def decode_offsets(data: bytes) -> ConsumerOffsets:
    """Read the text of consumerOffset.json, or of its like for light queues."""
    return decode_table(ConsumerOffsets, _BARE_NUMBER.sub(rb'\1"\2":', data))
