"""A broker as a child process on a store that outlives it, to be killed and started again."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import psutil

from support.interop.processes import free_port


class KilledBroker:
    """Keeps its port and its store over any number of deaths; `settings` are RocketMQ's keys."""

    started: ClassVar[set[subprocess.Popen[str]]] = set()

    @classmethod
    def end_all(cls) -> None:
        """End those that a test which failed has left."""
        while cls.started:
            child = cls.started.pop()
            if child.poll() is None:
                child.kill()
            child.wait()

    def __init__(self, root: Path, flush: str, **settings: str) -> None:
        self.root = root
        self.port = free_port(also_below=2)
        self.store = root / "store"
        self.config = root / "broker.conf"
        given = {
            "brokerIP1": "127.0.0.1",
            "listenPort": self.port,
            "storePathRootDir": self.store,
            "httpPort": -1,
            "mappedFileSizeCommitLog": 4 << 20,
            "flushDiskType": flush,
            "mappedFileSizeConsumeQueue": 60_000,
            "brokerFastFailureEnable": "false",  # a busy machine is no reason to refuse sends
            **settings,
        }
        self.config.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        self.child: subprocess.Popen[str] | None = None
        self.cpu_seconds_to_serve = 0.0

    def start(self) -> None:
        """Start and wait for the line that says it serves."""
        self.child = subprocess.Popen(
            [sys.executable, "-m", "aerobee.broker", "-c", str(self.config)],
            stdout=subprocess.PIPE,
            stderr=(self.root / "broker.log").open("a"),
            text=True,
        )
        self.started.add(self.child)
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        assert "serves on" in line, (self.root / "broker.log").read_text()[-2000:]
        times = psutil.Process(self.child.pid).cpu_times()
        self.cpu_seconds_to_serve = times.user + times.system

    def kill(self) -> None:
        """End it without a chance to do anything."""
        assert self.child is not None
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()

    def stop(self) -> int:
        """End it as an operator would; return its exit code."""
        assert self.child is not None
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(30)
