"""How what is installed was built: with compiled code, or why without.

`deploy/build_hook.py` writes it down beside the metadata of each distribution; what is said here is
what is true now, also where a compiled module has gone since.
"""

import json
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aerobee.remoting.extras import SERVER

if TYPE_CHECKING:
    from importlib.metadata import Distribution

BUILD_FILE: Final = "extra_metadata/aerobee/build.json"  # below the folder of the metadata


class Build(NamedTuple):
    """A version, whether its compiled code is there, and why not where it is not."""

    version: str
    compiled: bool
    why: str = ""

    def __str__(self) -> str:
        """`0.1.0 (compiled)`, or `0.1.0 (pure Python: no compiler found when it was built)`."""
        return f"{self.version} ({self.kind})"

    @property
    def kind(self) -> str:
        """The part in parentheses."""
        return "compiled" if self.compiled else f"pure Python: {self.why}"


def build() -> Build:
    """Return how the installed Aerobee was built, and its servers, if they are installed.

    Where one of the two is not compiled, the reason is of that one. Reads a few small files, some
    milliseconds.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # late: 20 ms

    try:
        client = _told_by(distribution("aerobee"))
    except PackageNotFoundError:
        return Build("of a source tree", compiled=False, why="it was never built")
    try:
        server = _told_by(distribution(SERVER))
    except PackageNotFoundError:
        return client
    return client if not client.compiled else server._replace(version=client.version)


def _told_by(found: "Distribution") -> Build:
    """Return how one distribution was built."""
    try:
        told: dict[str, Any] = json.loads(found.read_text(BUILD_FILE) or "{}")
        modules, why = [str(each) for each in told["compiled"]], str(told["why"])
    except (ValueError, KeyError, TypeError):
        return Build(found.version, compiled=False, why="nothing tells how it was built")
    if not modules:
        return Build(found.version, compiled=False, why=why)
    if lost := [each for each in modules if find_spec(each) is None]:
        return Build(found.version, compiled=False, why=f"{', '.join(lost)} cannot be found")
    return Build(found.version, compiled=True)
