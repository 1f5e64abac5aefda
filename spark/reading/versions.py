"""What the driver plans and other machines do: refused there in words where versions differ."""

from __future__ import annotations

import pickle
import socket
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from aerobee.spark.errors import VersionsDiffer


class FromDriver:
    """Something that the driver sends to tasks: they must have the version that it has.

    Its content is unpacked only after the versions were compared, so that a class that changed in
    between does not fail with an error that nobody understands. Raises VersionsDiffer there.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Pack the content behind the version."""
        return revive, (own_version(), pickle.dumps((type(self), vars(self))))


def revive(driver_version: str, content: bytes) -> Any:
    """Unpack what a driver of the same version has packed. Raises VersionsDiffer."""
    own = own_version()
    if own != driver_version:
        raise VersionsDiffer(
            f"aerobee {own} on {socket.gethostname()} ({sys.executable}), but {driver_version} on"
            " the driver: install the same on every machine, or send it along (--py-files)"
        )
    kind, state = pickle.loads(content)
    made = object.__new__(kind)
    vars(made).update(state)
    return made


@cache
def own_version() -> str:
    """The version of the `aerobee` that runs here; empty where it was copied without its name."""
    try:
        return version("aerobee")
    except PackageNotFoundError:
        return ""
