"""Which packages a part of Aerobee needs beyond the client's two, and one sentence where they lack.

`pip install aerobee` brings the client, msgspec and isal, which it is made of. Every other part
asks here, before it imports anything, for what its extra in `pyproject.toml` installs; servers and
Spark's data source are themselves in a distribution that extras install, `aerobee-server`.
"""

import sys
from functools import cache
from importlib.util import find_spec
from typing import Final, NoReturn

from aerobee.remoting.errors import AerobeeError

EXIT_USAGE: Final = 2  # as for a wrong call: nothing was tried

_CLI: Final = ("click", "pydantic", "rich", "yaml")
_COMPRESSION: Final = ("lz4", "zstandard")
_SPARK: Final = (*_COMPRESSION, "numpy", "pandas", "pyarrow", "pyspark")

MODULES: Final[dict[str, tuple[str, ...]]] = {
    "cli": _CLI,
    "compression": _COMPRESSION,
    "http": ("aiohttp",),
    "console": (*_CLI, "aiohttp", "jinja2"),
    "broker": (
        *_CLI, *_COMPRESSION, "aiohttp", "cryptography", "lark", "numpy", "prometheus_client",
        "yaml",
    ),
    "otel": ("opentelemetry",),
    "otlp": ("grpc", "opentelemetry"),
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

SERVER: Final = "aerobee-server"
SERVER_PARTS: Final = {
    "broker": "aerobee.broker",
    "spark": "aerobee.spark",
    "export": "aerobee.spark",
}
"""The extras that install `aerobee-server`, each with what it is needed for."""


class ExtraMissing(AerobeeError, ImportError):
    """A part of Aerobee is used whose packages are not installed; the text says what to type."""


def install_line(extra: str) -> str:
    """Return what to type: `pip install 'aerobee[broker]'`."""
    return f"pip install 'aerobee[{extra}]'"


def missing(extra: str) -> list[str]:
    """Name the modules of an extra that are not installed; nothing is imported."""
    part = SERVER_PARTS.get(extra)
    lacking = [] if part is None or _has_part(part) else [part]
    return lacking + [name for name in MODULES[extra] if not _is_there(name)]


def need(extra: str, what: str) -> None:
    """Raise ExtraMissing unless an extra is installed; `what` begins the sentence.

    need("broker", "aerobee broker")
        ->  aerobee broker needs aerobee[broker]: pip install 'aerobee[broker]' (no module lark)
    """
    if lacking := missing(extra):
        why = f"no module {', '.join(lacking)}"
    elif extra in SERVER_PARTS and (other := _other_server()):
        why = other
    else:
        return
    raise ExtraMissing(f"{what} needs aerobee[{extra}]: {install_line(extra)} ({why})")


def exit_without(extra: str, what: str) -> None:
    """End the process with that sentence on standard error and code 2, unless it is installed."""
    try:
        need(extra, what)
    except ExtraMissing as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(EXIT_USAGE) from None


def refuse(extra: str, part: str, *, run: bool) -> NoReturn:
    """Say, in the place of a part that is not installed, what to type.

    Who imports it gets ExtraMissing; `python -m`, of the part (`run`) or of a module below it, ends
    with the sentence and code 2.
    """
    if run or sys.argv[:1] == ["-m"]:  # while the module that is to be run is looked for
        exit_without(extra, f"python -m {part}")
    need(extra, part)
    raise ExtraMissing(f"{part} cannot be imported, though aerobee[{extra}] is installed")


def _has_part(name: str) -> bool:
    """Whether a package of the server is there; what stands for one is a plain module."""
    spec = find_spec(name)
    return spec is not None and spec.submodule_search_locations is not None


@cache
def _other_server() -> str:
    """Say which version of the server is beside which of the client, if they differ."""
    from importlib.metadata import PackageNotFoundError, version  # late: 20 ms

    try:
        ours, theirs = version("aerobee"), version(SERVER)
    except PackageNotFoundError:  # a source tree has both
        return ""
    return "" if ours == theirs else f"{SERVER} {theirs} is no match for aerobee {ours}"


def _is_there(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None
    return find_spec(name) is not None
