"""What an import of the client loads, and what it may cost."""

import json
import re
import sys
from statistics import median
from typing import Any

import pytest
from support.runs.partial_install import PartialInstall

IMPORT_MS_MAX = 120
YARDSTICK = "import argparse, asyncio, csv, email.mime.text, logging.config, ssl, unittest.mock"
YARDSTICK_MS = 67  # of CPU, on the machine of benchmarks/README.md with nothing beside
ROUNDS_MIN, ROUNDS_MAX = 5, 20
SHOWN = 12
LATE = {
    "aiohttp", "bz2", "hashlib", "http", "lzma", "multiprocessing", "numpy", "pydantic", "shutil",
    "tempfile", "unittest", "uvloop", "xml",
}  # fmt: skip
"""Modules that are loaded when they are needed, if they are there; some milliseconds each."""

ALL = "from aerobee.client import *"
IMPORT = """
import json, sys, time
began = time.process_time()
{statement}
took = time.process_time() - began
names = [name for name in sys.modules if sys.modules[name] is not None]
print(json.dumps({{"seconds": took, "modules": names}}))
"""


@pytest.fixture(scope="module")
def client_alone(tmp_path_factory: pytest.TempPathFactory) -> PartialInstall:
    """Give an environment with the client alone."""
    return PartialInstall(tmp_path_factory.mktemp("client"))


def imported(install: PartialInstall, statement: str) -> dict[str, Any]:
    """Run a statement in a new process; return its CPU seconds and the modules it loaded.

    Bytecode is kept, as where the client is installed: to compile all takes ten times as long.
    """
    program = IMPORT.format(statement=statement)
    done = install.run("-c", program, PYTHONDONTWRITEBYTECODE="")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def ours(modules: list[str], *rooms: str) -> list[str]:
    """Keep the modules of these rooms of ours."""
    return [
        name for name in modules if f"{name}.".startswith(tuple(f"aerobee.{r}." for r in rooms))
    ]


def test_the_package_loads_nothing_until_a_name_is_used(client_alone: PartialInstall) -> None:
    """Not even asyncio: a program that imports it and sends later waits later."""
    modules = imported(client_alone, "import aerobee.client")["modules"]
    assert "asyncio" not in modules and "msgspec" not in modules
    assert ours(modules, "client", "remoting") == ["aerobee.client"]


def test_who_sends_loads_nothing_of_consumers(client_alone: PartialInstall) -> None:
    """Nor of what a producer may be told to do."""
    modules = imported(client_alone, "from aerobee.client import Message, Producer")["modules"]
    rooms = ("group", "push", "poll", "plain", "requests", "transactions", "traces", "otel")
    assert ours(modules, *(f"client.{room}" for room in rooms)) == []
    assert ours(modules, "remoting.net.certificates", "remoting.config") == []
    assert not LATE & set(modules)


def test_everything_is_two_packages_and_what_they_need(client_alone: PartialInstall) -> None:
    """All public names together load nothing that a client may never use."""
    modules = imported(client_alone, ALL)["modules"]
    assert not LATE & set(modules)
    assert ours(modules, "broker", "namesrv", "storage", "spark", "testing", "cli") == []
    foreign = {
        name.partition(".")[0]
        for name in modules
        if name.partition(".")[0] not in sys.stdlib_module_names
        and not name.startswith(("aerobee", "__main__", "cython_runtime", "_cython_"))
    }
    assert foreign <= {"isal", "msgspec"}


def slowest(install: PartialInstall) -> str:
    """Say which modules of ours take longest of that import, each by itself."""
    done = install.run("-X", "importtime", "-c", ALL, PYTHONDONTWRITEBYTECODE="")
    took = re.findall(r"^import time: *(\d+) \|[ \d]+\| *(aerobee\S*)$", done.stderr, re.MULTILINE)
    longest = sorted(((int(own_us), name) for own_us, name in took), reverse=True)
    return ", ".join(f"{name} {own_us} us" for own_us, name in longest[:SHOWN])


def test_the_import_is_quick(client_alone: PartialInstall) -> None:
    """In CPU time, and beside what Python's own modules take: others lengthen both alike.

    Both in turns, as often as it takes for the median to tell: who shares a core, or its caches,
    doubles what one run takes.
    """
    ratios: list[float] = []
    while len(ratios) < ROUNDS_MAX:
        ours_s, yardstick_s = (imported(client_alone, each)["seconds"] for each in (ALL, YARDSTICK))
        ratios.append(ours_s / yardstick_s)
        if len(ratios) >= ROUNDS_MIN and median(ratios) * YARDSTICK_MS <= IMPORT_MS_MAX:
            return
    import_ms = median(ratios) * YARDSTICK_MS
    pytest.fail(
        f"the import takes {import_ms:.0f} ms of CPU, {median(ratios):.2f} of the yardstick's:"
        f" {slowest(client_alone)}"
    )
