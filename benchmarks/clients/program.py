"""A client's process: it is given orders, and the server is looked at exactly while it measures."""

import json
import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from benchmarks.clients.figures import Measured
from benchmarks.generator import LoadFailed, Sample
from benchmarks.targets import compiling

ANSWER_SECONDS_MAX: Final = 100.0
STOP_SECONDS_MAX: Final = 5.0


@dataclass(frozen=True, slots=True)
class Order:
    """What a program is to do: see `programs/meter.py`."""

    way: str
    topic: str
    group: str
    seconds: float
    count: int
    first: int

    def line(self) -> str:
        """Return it as programs read it."""
        return "\t".join(map(str, astuple(self)))


class Answered(NamedTuple):
    """What a program answered: how many of its sends are stored at least and at most."""

    acked: int
    acked_most: int
    measured: Measured | None  # None of an order that measures nothing


class ClientProgram:
    """One process on the clients' CPU; what it complains about goes to a file."""

    def __init__(self, command: Sequence[str], paths: Sequence[str], log_file: Path) -> None:
        self._log_file = log_file
        places = os.pathsep.join((*paths, str(compiling.PROJECT)))
        with log_file.open("ab") as log:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=compiling.PROJECT,
                env={**os.environ, "PYTHONPATH": places, "HOME": str(log_file.parent)},
            )

    def obey(self, order: Order, sample: Callable[[], Sample]) -> Answered:
        """Give an order and return the answer; LoadFailed where anything was wrong."""
        watch = threading.Timer(ANSWER_SECONDS_MAX, self._child.kill)
        watch.start()
        try:
            return self._answer(order, sample)
        except (OSError, ValueError) as error:
            raise LoadFailed(f"{order.way}: {error!r}: {self._complaints()}") from error
        finally:
            watch.cancel()

    def _answer(self, order: Order, sample: Callable[[], Sample]) -> Answered:
        to, out = self._pipes()
        _write(to, order.line())
        samples: list[Sample] = []
        for line in out:
            if line.strip() in ("begin", "end"):
                samples.append(sample())
                _write(to, "")
            elif line.startswith("{"):
                return self._read(order, json.loads(line), samples)
        raise LoadFailed(f"{order.way}: the program has ended: {self._complaints()}")

    def _read(self, order: Order, found: dict[str, Any], samples: list[Sample]) -> Answered:
        if found["errors"]:
            said = "; ".join(found["errors"])
            raise LoadFailed(f"{order.way}: {said} {self._complaints()}".strip())
        acked = int(found["acked"])
        measured = None
        if len(samples) == 2 and found["messages"]:
            measured = Measured.read(found, *samples)
        return Answered(acked, acked + int(found.get("timeouts", 0)), measured)

    def stop(self) -> None:
        """Close its input, on which it ends; one that hangs is killed."""
        to, out = self._pipes()
        try:
            to.close()
            self._child.wait(STOP_SECONDS_MAX)
        except (OSError, subprocess.TimeoutExpired):
            self._child.kill()
            self._child.wait()
        out.close()

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._child.stdin and self._child.stdout
        return self._child.stdin, self._child.stdout

    def _complaints(self) -> str:
        return self._log_file.read_text(errors="replace")[-1500:]


def _write(to: IO[str], line: str) -> None:
    to.write(line + "\n")
    to.flush()
