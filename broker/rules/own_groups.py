"""Groups whose committed offsets are the broker's own notes: by them a start finds what is open."""

from typing import Final

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.words import SYSTEM_GROUP_PREFIX

TRANSACTION_GROUP: Final = f"{SYSTEM_GROUP_PREFIX}TRANS"
"""How far transactions are done."""
OWN_GROUPS: Final = frozenset({TRANSACTION_GROUP, f"{SYSTEM_GROUP_PREFIX}REVIVE_GROUP"})
"""That one, and RocketMQ's for what was popped, which waits in a store that comes from there."""


def check_own_group(group: str) -> None:
    """Refuse a client that wants to say how far the broker's own work is done: RequestError."""
    if group in OWN_GROUPS:
        raise RequestError(
            ResponseCode.NO_PERMISSION,
            f"the offsets of group {group} are the broker's own, nobody else commits them",
        )
