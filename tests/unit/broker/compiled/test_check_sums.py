"""Check sums of bodies in compiled code: by isal's library in C, or by its module where that fails.

The way by the module is taken where a build of isal does not let the library's function be found.
"""

import importlib.util
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from isal import isal_zlib
from support.runs.source_tree import ROOT
from support.servers.brokers import send_command
from support.servers.twin_brokers import TwinBrokers

from aerobee.broker.compiled import choice
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.batch import BatchedMessage, encode_batch

if not choice.is_compiled():
    pytest.skip("built without a C compiler", allow_module_level=True)

from aerobee.broker.compiled import plain_sends

CHECK_SUM: Final = ROOT / "remoting" / "message" / "check_sum.pxi"
BODIES: Final = [random.Random(1).randbytes(size) for size in (*range(70), 1024, 5000, 300_000)]
TEXT: Final = "UNIQ_KEY\x01K%d\x02"
HALF: Final = TEXT + "TRAN_MSG\x01true\x02PGROUP\x01g\x02"


def has_wide_registers() -> bool:
    """Whether there is a C compiler, and a CPU with AVX2."""
    about = Path("/proc/cpuinfo")
    return (
        shutil.which("cc") is not None and about.exists() and " avx2 " in about.read_text("ascii")
    )


class Sums:
    """Counts what isal's module is asked for; `expected` says whether it should be."""

    def __init__(self, *, expected: bool) -> None:
        self.expected = expected
        self.asked = 0
        self._crc32 = isal_zlib.crc32

    def crc32(self, *given: Any) -> int:
        """Return a check sum."""
        self.asked += 1
        return self._crc32(*given)


def anew(folder: Path) -> ModuleType:
    """Load the module a second time, of a file of its own."""
    loader = ExtensionFileLoader(
        "plain_sends", str(shutil.copy(plain_sends.__file__, folder / "plain_sends.so"))
    )
    spec = importlib.util.spec_from_loader("plain_sends", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=["library", "module"])
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[TwinBrokers, Sums]]:
    """Run a pair, the compiled one with the function of the library, or without it."""
    with pytest.MonkeyPatch.context() as patch:
        sums = Sums(expected=request.param == "module")
        with pytest.MonkeyPatch.context() as while_loading:
            if sums.expected:
                while_loading.setattr(isal_zlib, "__file__", "/not/loaded")
            module = anew(tmp_path_factory.mktemp("compiled"))
        for name in ("PlainSends", "HalfRuns"):
            patch.setattr(choice, name, getattr(module, name))
        with TwinBrokers(patch) as pair:
            patch.setattr(isal_zlib, "crc32", sums.crc32)
            yield pair, sums


def agree(world: tuple[TwinBrokers, Sums], frames: list[bytes], bodies: int) -> None:
    """See the same stored and answered, and who has computed the sums."""
    pair, sums = world
    before = sums.asked
    compiled, python = pair.exchange(frames)
    assert compiled == python
    assert compiled["log"]
    asked = sums.asked - before
    assert asked >= bodies if sums.expected else asked == 0


def test_single_sends(world: tuple[TwinBrokers, Sums]) -> None:
    """Bodies of every length up to a cache line, and some long ones."""
    sends = [
        send_command(body, properties=TEXT % number)
        for number, body in enumerate(BODIES, 1)
        if body
    ]
    before = world[0].compiled_frames
    agree(world, [b"".join(map(encode_frame, sends))], len(sends))
    assert world[0].compiled_frames - before == len(sends)


def test_batches(world: tuple[TwinBrokers, Sums]) -> None:
    """Each message of one has its own sum."""
    messages = [BatchedMessage(0, body, (TEXT % 7).encode()) for body in BODIES[1:]]
    batch = send_command(
        encode_batch(messages), properties="", code=RequestCode.SEND_BATCH_MESSAGE, m="true"
    )
    agree(world, [encode_frame(batch)], len(messages))


def test_half_messages(world: tuple[TwinBrokers, Sums]) -> None:
    """They are copied by other code, but for the first of a kind."""
    halves = [
        send_command(body, properties=HALF % number, f="4")
        for number, body in enumerate(BODIES, 1)
        if body
    ]
    agree(world, [b"".join(map(encode_frame, halves))], len(halves) - 4)


CLEARED: Final = """
#include <string.h>

typedef long long wide __attribute__((vector_size(32)));
wide given = {1, 2, 3, 4}, kept;

int main(void) {
    wide held = given;
    clear_uppers();
    kept = held;
    return memcmp(&kept, &given, sizeof kept);
}
"""


@pytest.mark.skipif(not has_wide_registers(), reason="no compiler, or no AVX2")
def test_what_a_compiler_keeps_in_wide_registers_outlives_their_clearing(tmp_path: Path) -> None:
    """Who builds for his own CPU lets the compiler use them."""
    found = re.search(r'extern from \*:\n    """(.*?)"""', CHECK_SUM.read_text(), re.DOTALL)
    assert found is not None
    source, program = tmp_path / "sums.c", tmp_path / "sums"
    source.write_text(found[1] + CLEARED)
    subprocess.run(["cc", "-O3", "-mavx2", "-w", "-o", program, source, "-ldl"], check=True)
    assert subprocess.run([program], check=False).returncode == 0
