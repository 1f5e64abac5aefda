"""Whether `users.json` and `acls.json` say nothing that is not understood.

Elsewhere a key that nobody knows is passed over. Here a flipped bit in one would enable a user who
is disabled, or have an entry hold from everywhere, and so would what a later version has to say.
"""

from typing import Any, Final

import msgspec

from aerobee.remoting import fastjson
from aerobee.remoting.bodies import AclInfo, Body, PolicyEntryInfo, PolicyInfo, UserInfo

_LISTED: Final[dict[str, type[Body]]] = {
    "users": UserInfo,
    "acls": AclInfo,
    "policies": PolicyInfo,
    "entries": PolicyEntryInfo,
}
"""What the items are of a list that has this key."""


def check_keys(kind: type[Body], data: bytes) -> bytes:
    """Return the text of a file of this kind; ValueError names a key that nobody knows."""
    try:
        value = msgspec.json.decode(data)
    except ValueError:
        value = fastjson.loads(data)
    _check(kind, value)
    return data


def _check(kind: type[Body], value: Any) -> None:
    if not isinstance(value, dict):
        return  # whoever reads it says what is wrong
    for key, inner in value.items():
        if key not in kind.__struct_encode_fields__:
            raise ValueError(f"{kind.__name__} has no {key!r}: damaged, or of a later version")
        if (listed := _LISTED.get(key)) is not None and isinstance(inner, list):
            for each in inner:
                _check(listed, each)
