"""Frames of pulls that differ in their numbers alone, and of sends for them to find."""

from typing import Any

import msgspec

from aerobee.remoting.frame import encode_frame
from support.servers.brokers import pull_command, send_command


def pull(
    offset: int, opaque: int = 5, commit: int = 0, queue_id: int = 0, code: int = 11, **kind: Any
) -> bytes:
    """Return a pull whose numbers stand in a header that is the same each time."""
    command = pull_command(offset, queue_id=queue_id, **{"commitOffset": commit, **kind})
    return encode_frame(msgspec.structs.replace(command, opaque=opaque, code=code))


def pulls(offsets: list[int], **kind: Any) -> bytes:
    """Return such pulls, one behind the other."""
    return b"".join(
        pull(offset, number, offset // 2, **kind) for number, offset in enumerate(offsets)
    )


def sends(count: int, queue_id: int = 0, tag: str = "TagA", topic: str = "T") -> bytes:
    """Return sends."""
    properties = f"UNIQ_KEY\x01AB{count}\x02TAGS\x01{tag}\x02"
    one = send_command(bytes(count * 7), queue_id=queue_id, properties=properties, topic=topic)
    return encode_frame(msgspec.structs.replace(one, opaque=3)) * count
