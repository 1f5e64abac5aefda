"""Which packages a part of Aerobee needs beyond the client's two, and one sentence where they lack.

`pip install aerobee` brings msgspec and isal, all that a client is made of. Every other part asks
here, before it imports anything, for what its extra in `pyproject.toml` installs.
"""

import sys
from importlib.util import find_spec
from typing import Final

from aerobee.remoting.errors import AerobeeError

EXIT_USAGE: Final = 2  # as for a wrong call: nothing was tried

_CLI: Final = ("click", "pydantic", "rich")
_COMPRESSION: Final = ("lz4", "zstandard")
_SPARK: Final = (*_COMPRESSION, "numpy", "pandas", "pyarrow", "pyspark")

MODULES: Final[dict[str, tuple[str, ...]]] = {
    "cli": _CLI,
    "compression": _COMPRESSION,
    "http": ("aiohttp",),
    "broker": (
        *_CLI, *_COMPRESSION, "aiohttp", "cryptography", "lark", "numpy", "prometheus_client",
    ),
    "otel": ("opentelemetry",),
    "spark": _SPARK,
    "export": (*_CLI, *_SPARK),
    "delta": ("deltalake",),
    "django": ("django",),
    "faststream": ("faststream",),
    "prometheus": ("prometheus_client",),
    "sqlalchemy": ("sqlalchemy",),
    "taskiq": ("taskiq",),
}  # fmt: skip
"""The extras, each with the modules that its part cannot do without.

An extra may install more: uvloop has no build for every platform, and a Java may be there already.
"""


class ExtraMissing(AerobeeError, ImportError):
    """A part of Aerobee is used whose packages are not installed; the text says what to type."""


def install_line(extra: str) -> str:
    """Return what to type: `pip install 'aerobee[broker]'`."""
    return f"pip install 'aerobee[{extra}]'"


def missing(extra: str) -> list[str]:
    """Name the modules of an extra that are not installed; nothing is imported."""
    return [name for name in MODULES[extra] if not _is_there(name)]


def need(extra: str, what: str) -> None:
    """Raise ExtraMissing unless an extra is installed; `what` begins the sentence.

    need("broker", "aerobee broker")
        ->  aerobee broker needs aerobee[broker]: pip install 'aerobee[broker]' (no module lark)
    """
    if lacking := missing(extra):
        raise ExtraMissing(
            f"{what} needs aerobee[{extra}]: {install_line(extra)} (no module {', '.join(lacking)})"
        )


def exit_without(extra: str, what: str) -> None:
    """End the process with that sentence on standard error and code 2, unless it is installed."""
    try:
        need(extra, what)
    except ExtraMissing as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(EXIT_USAGE) from None


def _is_there(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None
    return find_spec(name) is not None
