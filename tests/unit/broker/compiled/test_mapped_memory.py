"""Copies of memory that the disk does not give, in programs that handle SIGBUS themselves."""

import signal
import subprocess
import sys

import pytest

from aerobee.broker.compiled.choice import is_compiled

if not is_compiled():
    pytest.skip("built without a C compiler", allow_module_level=True)

CUT = """
import faulthandler, mmap, os, tempfile

def cut():
    with tempfile.TemporaryFile() as file:
        file.write(bytes(2 * mmap.PAGESIZE))
        file.flush()
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        os.truncate(file.fileno(), 0)
    return memory
"""
ENDS = """
from aerobee.broker.compiled.choice import copied, guard_copies
assert copied(wanted=True)(cut(), 10, mmap.PAGESIZE) is None
assert copied(wanted=True)(cut(), 10, mmap.PAGESIZE) is None
print("survived", flush=True)
print(cut()[5])
"""
IMPORT = "import aerobee.broker.compiled.record_runs as compiled\n"
GUARD = "compiled.guard_copies()\n"
ON = "faulthandler.enable()\n"
OFF = "faulthandler.disable()\n"
FATAL = "Fatal Python error: Bus error"


@pytest.mark.parametrize(
    ("before", "told"),
    [
        (IMPORT, 0),
        (ON + IMPORT, 1),
        (IMPORT + ON, 1),  # its lines of a copy; then it is off
        (IMPORT + ON + GUARD, 1),
        (IMPORT + ON + GUARD + GUARD, 1),
        (ON + IMPORT + OFF + GUARD, 0),
        (IMPORT + OFF + ON + OFF + GUARD, 0),
        (IMPORT + ON + GUARD + OFF + ON + GUARD, 1),
    ],
)
def test_a_copy_survives_and_any_other_touch_ends_the_process(before: str, told: int) -> None:
    """In whatever order others come to handle the signal; nobody hands it on for ever."""
    done = subprocess.run(
        [sys.executable, "-c", CUT + before + ENDS],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "survived\n", done.stderr
    assert done.stderr.count(FATAL) == told, done.stderr
    assert done.returncode == -signal.SIGBUS


EMBEDDED = """
import asyncio
from aerobee.broker.compiled.choice import copied
from aerobee.testing import EmbeddedCluster

def survives():
    child = os.fork()
    if not child:
        os._exit(copied(wanted=True)(cut(), 0, 9) is not None)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

async def main():
    async with EmbeddedCluster():
        faulthandler.disable()
        assert not survives()
        while not survives():
            await asyncio.sleep(0.05)

asyncio.run(main())
"""


def test_a_broker_stands_first_again() -> None:
    """Soon after its program has switched off what stood before it, and with that its own."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", CUT + EMBEDDED],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
