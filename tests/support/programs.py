"""Programs in processes of their own, for what a whole process does: its end, forks, signals."""

import os
import subprocess
import sys
import textwrap


def run_program(text: str, *arguments: str, timeout_s: float = 60, code: int = 0) -> str:
    """Run a program with these arguments to its end, and return what it printed, errors too.

    Warnings that Python hides by default are shown; a hang, or another exit code, fails.
    """
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", textwrap.dedent(text), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert done.returncode == code, done.stdout
    return done.stdout
