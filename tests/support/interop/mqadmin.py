"""mqadmin of RocketMQ 5.5.0, as one process for all commands, and a cluster of several brokers."""

import base64
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Self

from support.interop import toolchain
from support.interop.cluster import Cluster

NAMES: Final = ("broker-a", "broker-b", "broker-c")
_JVM: Final = "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"


class Printed(NamedTuple):
    """What a command has printed, errors too, and whether it had ended within its time."""

    text: str
    ended: bool


class MqAdmin:
    """One JVM that runs commands one after the other; its logs and exports go to `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> Self:
        classes = toolchain.java_classes("server-5.5.0")
        path = f"{classes}:{toolchain.classpath('server-5.5.0')}"
        places = [f"-D{key}={self.folder}" for key in ("user.home", "rocketmq.home.dir")]
        self._log = (self.folder / "mqadmin.log").open("wb")
        self._child = subprocess.Popen(
            [toolchain.tool("java"), *_JVM.split(), *places, "-cp", path, "MqAdmin"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=self.folder,  # it writes plans of static topics there
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.communicate()
        self._log.close()

    def run(self, words: Sequence[str], limit_s: float = 20.0) -> Printed:
        """Run one command; one that goes on for ever is interrupted at its limit."""
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write("\t".join((str(int(limit_s * 1000)), *words)) + "\n")
        self._child.stdin.flush()
        ended, _, text = self._child.stdout.readline().partition(" ")
        return Printed(base64.b64decode(text).decode(), ended == "true")


@contextmanager
def several_brokers(first: Cluster) -> Iterator[list[Cluster]]:
    """Start a cluster's nameserver and three brokers; yield who has each of them."""
    with ExitStack() as stack:
        others = [first.beside(name) for name in NAMES[1:]]
        stack.enter_context(first)
        for other in others:
            stack.callback(other.kill_broker)
        with ThreadPoolExecutor(len(others)) as threads:
            list(threads.map(Cluster.start_broker, others))
        yield [first, *others]
