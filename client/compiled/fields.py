"""The fields of messages as Python keeps them, where nothing is compiled."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from aerobee.remoting.message.properties import find_property

if TYPE_CHECKING:
    from aerobee.client.message import MessageQueue

K = TypeVar("K", bound=type)


class _Slots(msgspec.StructMeta):
    """Takes classes that say of themselves that they add no fields, as msgspec's all do."""

    def __new__(mcls, name: str, bases: tuple[type, ...], names: dict[str, Any], **how: Any) -> Any:
        names.pop("__slots__", None)
        return super().__new__(mcls, name, bases, names, **how)


class MessageDamage(msgspec.Struct, frozen=True, gc=False):
    """Why a message cannot be read; `as_sent` says that its bytes are those of its sender."""

    reason: str
    as_sent: bool


class MessageFields(msgspec.Struct, metaclass=_Slots, eq=False, gc=False):
    """What a message is made of; `ReceivedMessage` says what they mean."""

    queue: "MessageQueue"
    body: bytes
    queue_offset: int
    reconsume_times: int
    position: int
    born_timestamp_ms: int
    store_timestamp_ms: int
    flag: int
    sys_flag: int
    body_bytes: int
    raw_properties: bytes
    raw_born_host: bytes
    raw_store_host: bytes
    bounds: tuple[int, int] | None = None  # min and max offset, shared by all of one pull
    parsed: dict[str, str] | None = None
    held_bytes: int = 0
    damage: MessageDamage | None = None

    def find(self, name: str) -> str | None:
        """Return one property without reading the others; None where there is none."""
        return find_property(self.raw_properties, name)


FIELDS: Final = MessageFields.__struct_fields__
"""The names of the fields, in the order of the constructor's arguments."""


def light(kind: K) -> K:
    """Return a class as it is: msgspec keeps it from the garbage collector already."""
    return kind


def rises(messages: Sequence[MessageFields], first: int, behind: int) -> bool:
    """Say whether the offsets of messages rise from `first` on, and stay below `behind`."""
    last = first - 1
    for message in messages:
        if not last < message.queue_offset < behind:
            return False
        last = message.queue_offset
    return True


def measure(messages: Sequence[MessageFields]) -> tuple[int, bool]:
    """Return how many bytes messages hold, and whether each offset is that before it plus one."""
    held_bytes, consecutive = 0, True
    last = messages[0].queue_offset - 1 if messages else 0
    for message in messages:
        held_bytes += message.held_bytes
        consecutive &= message.queue_offset == last + 1
        last = message.queue_offset
    return held_bytes, consecutive
