"""How what is installed was built: with compiled code, or why without.

`deploy/build_hook.py` writes it down beside the package's metadata; what is said here is what is
true now, also where a compiled module has gone since.
"""

import json
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

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
    """Return how the installed Aerobee was built; reads two small files, some milliseconds."""
    from importlib.metadata import PackageNotFoundError, distribution  # late: 20 ms

    try:
        found = distribution("aerobee")
    except PackageNotFoundError:
        return Build("of a source tree", compiled=False, why="it was never built")
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
