"""A broker as a child process, whose memory and log can be looked at from outside."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.interop.processes import free_port


class ChildBroker:
    """A broker on a store and a port of its own."""

    def __init__(self, folder: Path, port: int, child: subprocess.Popen[str]) -> None:
        self.folder = folder
        self.port = port
        self.child = child

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return (self.folder / "broker.log").read_text(errors="replace")

    @property
    def peak_mb(self) -> int:
        """The most memory that it has had resident so far, in MiB; shared pages included."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) // 1024


@contextmanager
def child_broker(folder: Path, **settings: object) -> Iterator[ChildBroker]:
    """Start a broker, wait until it serves, stop it as an operator would."""
    port = free_port(also_below=2)
    given = {
        "brokerIP1": "127.0.0.1",
        "listenPort": port,
        "storePathRootDir": folder / "store",
        "httpPort": -1,
        "mappedFileSizeCommitLog": 64 << 20,
        "diskSpaceWarningLevelRatio": 95,
        "brokerFastFailureEnable": "false",  # a busy machine is no reason to refuse sends
        **settings,
    }
    config = folder / "broker.conf"
    config.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    with (folder / "broker.log").open("w") as errors:
        child = subprocess.Popen(
            [sys.executable, "-m", "aerobee.broker", "-c", str(config)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    broker = ChildBroker(folder, port, child)
    assert child.stdout is not None
    try:
        line = child.stdout.readline()
        assert "serves on" in line, broker.log
        yield broker
        child.send_signal(signal.SIGTERM)
        assert child.wait(30) == 0, broker.log
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
