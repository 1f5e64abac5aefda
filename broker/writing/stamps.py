"""What the broker adds to a message before it is stored: hosts, times and three properties."""

from typing import Final

from aerobee.remoting.codes import SysFlag
from aerobee.remoting.message.layout import RECORD_FIELDS
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.tags import java_string_hash

REMEMBERED_TAGS_MAX: Final = 10_000

_pack_timestamp = RECORD_FIELDS.run("store_timestamp", "store_timestamp").pack
_pack_tail = RECORD_FIELDS.run("reconsume_times", "prepared_transaction_offset").pack
NOT_RECONSUMED: Final = _pack_tail(0, 0)


class TagHashes(dict[str, int]):
    """Tag to the number that the ConsumeQueue keeps; remembers what it has computed, boundedly."""

    def __missing__(self, tag: str) -> int:
        if len(self) >= REMEMBERED_TAGS_MAX:
            self.clear()
        code = self[tag] = java_string_hash(tag)  # 0 for no text
        return code

    def of(self, properties: str) -> int:
        """Return the number for the TAGS of a property string that ends with its separator.

        Of several the last counts, as for everybody who reads the message.
        """
        before, found, after = properties.rpartition("TAGS\x01")
        if not found:
            return 0
        tag = after.partition("\x02")[0]
        if tag and (not before or before[-1] == "\x02"):
            return self[tag]
        return self[parse_properties(properties).get("TAGS", "")]  # another name's end, or no tag


class Stamp:
    """The host and time part of the records that one connection sends.

    A record holds, one after the other, born host, store timestamp, store host, reconsume times and
    prepared transaction offset (8 or 20, 8, 8 or 20, 4 and 8 bytes); `sys_flag` says which hosts
    are IPv6.
    """

    __slots__ = ("_born_host", "_store_host", "sys_flag")

    def __init__(self, born_host: bytes, store_host: bytes) -> None:
        self._born_host = born_host
        self._store_host = store_host
        self.sys_flag = (SysFlag.BORN_HOST_V6 if len(born_host) > 8 else 0) | (
            SysFlag.STORE_HOST_V6 if len(store_host) > 8 else 0
        )

    def at(self, now_ms: int, reconsume_times: int = 0, prepared_offset: int = 0) -> bytes:
        """Return those bytes for messages that are stored at `now_ms`.

        `prepared_offset` is, for a committed message, the position of its half message.
        """
        tail = NOT_RECONSUMED
        if reconsume_times or prepared_offset:
            tail = _pack_tail(reconsume_times, prepared_offset)
        return self._born_host + _pack_timestamp(now_ms) + self._store_host + tail


def stored_later(stamp: bytes, sys_flag: int, now_ms: int, prepared_offset: int) -> bytes:
    """Return the stamp of a half message as its committed message has it; see `Stamp.at`."""
    host_bytes = 20 if sys_flag & SysFlag.BORN_HOST_V6 else 8
    return b"".join(
        (
            stamp[:host_bytes],
            _pack_timestamp(now_ms),
            stamp[host_bytes + 8 : -len(NOT_RECONSUMED)],
            _pack_tail(0, prepared_offset),
        )
    )


def broker_properties(region: str, trace_on: bool, cluster: str) -> dict[str, str]:
    """Return the properties that every stored message gets (AbstractSendMessageProcessor)."""
    return {
        "MSG_REGION": region,
        "TRACE_ON": "true" if trace_on else "false",
        "CLUSTER": cluster,
    }
