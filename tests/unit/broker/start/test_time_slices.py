"""The loop's thread goes before whoever has its CPU, where the kernel lets it; others stay so."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from aerobee.broker.start.time_slices import ask_for_short_slices

ASK = """
import os, threading
from pathlib import Path
from aerobee.broker.start.time_slices import ask_for_short_slices

def slice_ns():
    lines = Path("/proc/thread-self/sched").read_text().splitlines()
    return next((line.split()[-1] for line in lines if line.startswith("se.slice")), "0")

{before}
before = slice_ns()
asked = ask_for_short_slices()
others = []
thread = threading.Thread(target=lambda: others.append(slice_ns()))
thread.start()
thread.join()
nice = os.getpriority(os.PRIO_PROCESS, 0)
print(before, asked, slice_ns(), others[0], ask_for_short_slices(), nice)
"""

pytestmark = pytest.mark.skipif(
    not Path("/proc/thread-self/sched").exists(), reason="no kernel that tells of slices"
)


def asked(before: str = "") -> list[str]:
    """What a process of its own says of its slices: the choice is for a thread's life."""
    command = [sys.executable, "-c", ASK.format(before=before)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_the_loop_has_short_slices_and_others_have_what_they_had() -> None:
    """Whoever is nice stays so; asked again it changes nothing."""
    before, done, now, other, again, nice = asked("os.nice(3)")
    assert (again, nice) == ("False", "3")
    if done == "False":
        pytest.skip("this kernel knows no slices")
    assert (now, other) == ("100000", before)


def test_a_policy_that_was_chosen_stays() -> None:
    """A broker that is to run when nobody else does goes on so."""
    before, done, now, *_ = asked("os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))")
    assert (done, now) == ("False", before)


def test_elsewhere_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a system of another kind, or a processor whose calls are not known here."""
    with monkeypatch.context() as patched:
        patched.setattr(platform, "system", lambda: "Darwin")
        assert not ask_for_short_slices()
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert not ask_for_short_slices()
