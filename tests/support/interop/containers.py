"""Processes of an image as an engine starts them: its user, a read-only root, volumes, PID 1."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

from support.interop.image import Image, tools
from support.interop.processes import STOP_SECONDS_MAX, Process, ServerFailed

UID: Final = 3000
CAPABILITIES: Final = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
"""For the step from root to the image's user, which leaves none."""
COMMAND_SECONDS_MAX: Final = 60


class Container:
    """One container: a file system of its own, and whatever is mounted into it.

    The network is the machine's: servers need ports that are free.
    """

    def __init__(self, image: Image, root: Path, mounts: Mapping[str, Path]) -> None:
        self.image = image
        self.root = root
        self._mounts = mounts
        for inside in mounts:  # as engines make them; bubblewrap's own are for root alone
            (root / inside.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def with_mounts(self, mounts: Mapping[str, Path]) -> "Container":
        """Return one of the same file system with these folders at these paths."""
        return Container(self.image, self.root, mounts)

    def start(self, log_file: Path, *words: str, **variables: str) -> "Running":
        """Start its entry point with a command, as the first process."""
        command = [*self.image.config["Entrypoint"], *words]
        wrapped = self._wrapped(command, variables, ("--unshare-pid", "--as-pid-1"))
        return Running(Process(wrapped, log_file))

    def run(self, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run the entry point with a command, to its end."""
        return self._run([*self.image.config["Entrypoint"], *words], variables)

    def health(self, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run what the image says about its health, beside what runs there."""
        kind, *words = self.image.config["Healthcheck"]["Test"]
        assert kind == "CMD", "no shell in between"
        return self._run(words, variables)

    def _run(
        self, command: Sequence[str], variables: Mapping[str, str]
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self._wrapped(command, variables, ()),
            capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX, check=False,
        )  # fmt: skip

    def _wrapped(
        self, command: Sequence[str], variables: Mapping[str, str], more: Sequence[str]
    ) -> list[str]:
        uid, gid = self.image.config["User"].split(":")
        mounts = [
            word for inside, at in self._mounts.items() for word in ("--bind", str(at), inside)
        ]
        named = self.image.variables(variables).items()
        return [
            str(tools() / "usr" / "bin" / "bwrap"),
            *("--bind", str(self.root), "/", "--dev", "/dev", "--proc", "/proc"),
            *("--tmpfs", "/tmp", *mounts, "--remount-ro", "/"),
            *("--chdir", self.image.config["WorkingDir"], "--die-with-parent", "--clearenv"),
            *(word for name, value in named for word in ("--setenv", name, value)),
            *(word for each in CAPABILITIES for word in ("--cap-add", each)),
            *more,
            *("setpriv", "--reuid", uid, "--regid", gid, "--clear-groups", "--no-new-privs"),
            *("--bounding-set=-all", "--inh-caps=-all", *command),
        ]


class Running:
    """The first process of a container."""

    def __init__(self, process: Process) -> None:
        self.process = process

    @property
    def first(self) -> psutil.Process:
        """What is process 1 inside, as this machine sees it."""
        (inside,) = psutil.Process(self.process.pid).children()
        return inside

    def stop(self) -> int:
        """Send SIGTERM to process 1, which nobody but itself handles; return its exit code."""
        self.first.send_signal(signal.SIGTERM)
        code = self.process.wait(STOP_SECONDS_MAX)
        if code is None:
            self.process.kill()
            raise ServerFailed(f"no stop within {STOP_SECONDS_MAX} s\n{self.process.tail()}")
        return code


def volume(folder: Path) -> Path:
    """Make a volume that belongs to the image's user, as an engine makes one."""
    folder.mkdir(parents=True)
    os.chown(folder, UID, UID)
    return folder
