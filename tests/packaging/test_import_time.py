"""What an import of the client loads, and what it may cost."""

import json
import sys
from typing import Any

import pytest
from support.runs.partial_install import PartialInstall

SECONDS_MAX = 0.24  # of CPU: twice what is promised, for machines that do something else as well
ROUNDS = 5
LATE = {
    "aiohttp", "bz2", "hashlib", "http", "lzma", "multiprocessing", "numpy", "pydantic", "shutil",
    "tempfile", "unittest", "uvloop", "xml",
}  # fmt: skip
"""Modules that are loaded when they are needed, if they are there; some milliseconds each."""

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
    """Run a statement in a new process; return its CPU seconds and the modules it loaded."""
    done = install.run("-c", IMPORT.format(statement=statement))
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
    modules = imported(client_alone, "from aerobee.client import *")["modules"]
    assert not LATE & set(modules)
    assert ours(modules, "broker", "namesrv", "storage", "spark", "testing", "cli") == []
    foreign = {
        name.partition(".")[0]
        for name in modules
        if name.partition(".")[0] not in sys.stdlib_module_names
        and not name.startswith(("aerobee", "__main__", "cython_runtime", "_cython_"))
    }
    assert foreign <= {"isal", "msgspec"}


def test_the_import_is_quick(client_alone: PartialInstall) -> None:
    """The best of some runs, in CPU time, which other processes lengthen least."""
    statement = "from aerobee.client import *"
    runs = [imported(client_alone, statement)["seconds"] for _ in range(ROUNDS)]
    assert min(runs) < SECONDS_MAX
