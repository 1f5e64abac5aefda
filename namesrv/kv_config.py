"""The key-value table: namespaces of strings, kept in RocketMQ's kvConfig.json.

    {"configTable":{"ORDER_TOPIC_CONFIG":{"topic":"broker-a:4;broker-b:4"}}}

A change is answered when it is on disk; `remoting.config.kept_files` says how the file is replaced
(KVConfigManager.java).
"""

import asyncio
import logging
from pathlib import Path
from typing import Final

import msgspec

from aerobee.remoting.bodies import Body, KVTable, decode_body, encode_body
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.config.kept_files import load_kept_file, replace_file
from aerobee.remoting.errors import RequestError

log = logging.getLogger(__name__)

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"  # NamesrvUtil.NAMESPACE_ORDER_TOPIC_CONFIG


class KvFile(Body, frozen=True, kw_only=True):
    """The file's content (KVConfigSerializeWrapper.java)."""

    config_table: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)


class KvConfig:
    """The table in memory, and its file."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        self.table: dict[str, dict[str, str]] = {}
        self._path = path
        self._bytes_max = bytes_max
        self._bytes = 0  # of all namespaces, with and without keys, keys and values
        self._changes = 0
        self._written = 0  # how many changes the file holds
        self._writing = asyncio.Lock()

    def load(self) -> None:
        """Read the file or its backup; raises KeptFileDamaged (see `load_kept_file`)."""
        stored = load_kept_file(self._path, lambda data: decode_body(KvFile, data))
        if stored is None:
            return
        self.table = stored.config_table
        self._bytes = sum(
            entry_bytes(namespace, key, value)
            for namespace, values in self.table.items()
            for key, value in (("", ""), *values.items())
        )

    def get(self, namespace: str, key: str) -> str | None:
        """Return one value."""
        return self.table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> bytes | None:
        """Return a whole namespace as a KVTable body; None when there is none of that name."""
        values = self.table.get(namespace)
        return None if values is None else encode_body(KVTable(table=values))

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set one value and return when it is on disk.

        Raises RequestError when the table would grow beyond its limit or cannot be written.
        """
        before = self.get(namespace, key)
        grown = entry_bytes(namespace, key, value)
        if before is not None:
            grown -= entry_bytes(namespace, key, before)
        if namespace not in self.table:  # which stays when it is empty, and answers as RocketMQ's
            grown += entry_bytes(namespace, "", "")
        if grown > 0 and self._bytes + grown > self._bytes_max:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"the KV table would take {self._bytes + grown} bytes,"
                f" allowed are {self._bytes_max} (kvBytesMax)",
            )
        self._bytes += grown
        self.table.setdefault(namespace, {})[key] = value
        log.info("kv put namespace=%s key=%s value=%s before=%s", namespace, key, value, before)
        await self._persist()

    async def delete(self, namespace: str, key: str) -> None:
        """Forget one value, if there is one, and return when that is on disk."""
        values = self.table.get(namespace, {})
        if key not in values:
            return
        value = values.pop(key)
        self._bytes -= entry_bytes(namespace, key, value)
        log.info("kv delete namespace=%s key=%s value=%s", namespace, key, value)
        await self._persist()

    async def _persist(self) -> None:
        """Write the file in a thread; changes that come meanwhile share the next writing."""
        self._changes += 1
        mine = self._changes
        async with self._writing:
            if self._written >= mine:
                return  # the writing that this one waited for had the change
            written = self._changes
            data = encode_body(KvFile(config_table=self.table))
            try:
                await asyncio.to_thread(replace_file, self._path, data)
            except OSError as error:
                log.error("kv file not written path=%s error=%s", self._path, error)
                raise RequestError(
                    ResponseCode.SYSTEM_ERROR, f"{self._path} cannot be written: {error.strerror}"
                ) from error
            self._written = written


def entry_bytes(namespace: str, key: str, value: str) -> int:
    """Return what an entry counts towards the table's limit."""
    return len(namespace.encode()) + len(key.encode()) + len(value.encode())
