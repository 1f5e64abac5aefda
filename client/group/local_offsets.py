"""Offsets of a broadcasting group: in a file of its own for each member."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aerobee.client.cluster.queue_offsets import QueueOffsets
from aerobee.client.message import MessageQueue
from aerobee.remoting import fastjson
from aerobee.remoting.config.kept_files import KeptFileDamaged, load_kept_file, replace_file
from aerobee.remoting.errors import AerobeeError, ProtocolError

if TYPE_CHECKING:
    from aerobee.client.instance.client_instance import ClientInstance

log = logging.getLogger(__name__)

FOLDER: Final = ".rocketmq_offsets"  # below the user's home
FILE: Final = "offsets.json"


def offsets_file(folder: str, client_id: str, group: str) -> Path:
    """Return where a member keeps its offsets; an empty folder is RocketMQ's."""
    return (Path(folder) if folder else Path.home() / FOLDER) / client_id / group / FILE


class LocalOffsets(QueueOffsets):
    """Offsets of one member in RocketMQ's file, with its `.bak` (LocalFileOffsetStore.java).

    The member finds its file again by its client id, which therefore stays the same over restarts.
    Offsets of queues that are not asked for stay in the file as they are.
    """

    def __init__(
        self, instance: "ClientInstance", group: str, timeout_ms: int, folder: str
    ) -> None:
        super().__init__(instance.brokers, timeout_ms)
        self.group = group
        self._instance = instance
        self._folder = folder
        self._turn = asyncio.Lock()

    @property
    def path(self) -> Path:
        """The file, known as soon as the client has its id."""
        return offsets_file(self._folder, self._instance.client_id, self.group)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the offset in the file, or None; raises KeptFileDamaged, with what to do."""
        async with self._turn:
            return self._read().get(queue)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the offset of the next message to consume; raises OSError, KeptFileDamaged."""
        await self._write({queue: offset})

    async def commit_or_log(self, queue: MessageQueue, offset: int) -> None:
        """Store an offset; a failure is logged."""
        await self.commit_all({queue: offset})

    async def commit_all(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Store offsets; a failure is logged."""
        try:
            await self._write(offsets)
        except (OSError, KeptFileDamaged) as error:
            log.error("offsets not stored group=%s file=%s: %s", self.group, self.path, error)

    def carried(self, queue: MessageQueue, offset: int) -> None:
        """Pulls of a broadcasting member carry no offsets."""

    def _read(self) -> dict[MessageQueue, int]:
        return load_kept_file(self.path, decode_offsets) or {}

    async def _write(self, offsets: Mapping[MessageQueue, int]) -> None:
        async with self._turn:
            before = self._read()
            after = {**before, **offsets}
            if after != before:
                await asyncio.to_thread(replace_file, self.path, encode_offsets(after))


def decode_offsets(data: bytes) -> dict[MessageQueue, int]:
    """Read the file (OffsetSerializeWrapper.java); raises ProtocolError for anything else."""
    try:
        table = fastjson.loads(data)["offsetTable"]
        return {
            MessageQueue(key["topic"], key["brokerName"], int(key["queueId"])): int(offset)
            for key, offset in table.items()
        }
    except (AerobeeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProtocolError(f"no table of offsets: {error}") from None


def encode_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Write the file as RocketMQ reads it."""
    table = {
        fastjson.JsonObjectKey(
            {"brokerName": at.broker_name, "queueId": at.queue_id, "topic": at.topic}
        ): offset
        for at, offset in sorted(offsets.items())
    }
    return fastjson.dumps({"offsetTable": table}, strict=False)
