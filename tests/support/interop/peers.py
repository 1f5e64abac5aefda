"""The foreign clients as the tests use them: produce a list of messages, consume into a list.

Every peer program speaks the same language on its standard streams (see `tests/interop/README.md`):
`produce` reads `tags TAB keys TAB base64 body` lines and prints one JSON line per send, `consume`
prints one JSON line per message until its standard input ends.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from support.interop import toolchain

PRODUCE_SECONDS_MAX: Final = 60
CONSUME_SECONDS_MAX: Final = 60
_STOP_SECONDS_MAX: Final = 15


class PeerFailed(Exception):
    """A peer program ended badly or did not deliver in time; the text has what it printed."""


@dataclass(frozen=True, slots=True, order=True)
class Content:
    """What a message carries from end to end."""

    tags: str
    keys: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Received:
    """One message as a peer got it."""

    content: Content
    topic: str
    msg_id: str
    queue_id: int
    queue_offset: int
    reconsume_times: int = 0
    at_ms: float = 0.0  # since 1970, by the peer's clock


@dataclass(frozen=True, slots=True)
class Peer:
    """One foreign client; `command` builds (once) and returns the words that start its program.

    `hashes_utf16` is false for the Go client, which hashes the bytes of a tag where RocketMQ hashes
    its UTF-16 units; `creates_topics` is false for ali-ons, which itself refuses to send to a topic
    that the nameserver does not know.
    """

    name: str
    tool: str
    command: Callable[[], list[str]]
    batches: bool = False
    hashes_utf16: bool = True
    creates_topics: bool = True
    environment: Callable[[], dict[str, str]] = dict

    def __str__(self) -> str:
        return self.name

    def start(self, arguments: Sequence[str], log_file: Path) -> "subprocess.Popen[str]":
        """Start the program with its standard streams as pipes; complaints go to a file."""
        with log_file.open("w") as log:
            return subprocess.Popen(
                [*self.command(), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | {"ROCKETMQ_GO_LOG_LEVEL": "warn"} | self.environment(),
            )

    def produce(
        self, namesrv: str, topic: str, messages: Sequence[Content], *, batch: bool = False
    ) -> list[dict[str, Any]]:
        """Send `messages` and return what the client was told of each (of the batch: once)."""
        lines = "".join(
            f"{m.tags}\t{m.keys}\t{base64.b64encode(m.body).decode()}\n" for m in messages
        )
        group = f"producer-{self.name.replace('.', '_')}"
        words = ["batch" if batch else "produce", namesrv, topic, group]
        with tempfile.TemporaryDirectory() as directory:
            log_file = Path(directory, "log")
            child = self.start(words, log_file)
            try:
                output, _ = child.communicate(lines, PRODUCE_SECONDS_MAX)
            except subprocess.TimeoutExpired as error:
                child.kill()
                child.communicate()
                raise PeerFailed(f"{self} did not end: {log_file.read_text()[-3000:]}") from error
            if child.returncode != 0:
                raise PeerFailed(
                    f"{self} ended with {child.returncode}: {output[-2000:]} "
                    f"{log_file.read_text()[-3000:]}"
                )
        return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def end_program(
    child: "subprocess.Popen[str]", reader: threading.Thread, seconds_max: float
) -> None:
    """Close a program's input, on which it shuts down; one that hangs is killed."""
    if child.stdin is not None:
        with suppress(BrokenPipeError):  # of a program that has ended without reading it all
            child.stdin.close()
    try:
        child.wait(seconds_max)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    reader.join(seconds_max)
    if child.stdout is not None:
        child.stdout.close()


class Consumer:
    """A consuming peer program; `received` grows while it runs.

    Use it as a context manager: leaving ends the program as its own shutdown does.
    """

    def __init__(
        self,
        peer: Peer,
        namesrv: str,
        topic: str,
        group: str,
        expression: str = "*",
        *,
        command: str = "consume",
    ) -> None:
        self.peer = peer
        self._words = [command, namesrv, topic, group, expression]
        self._directory = tempfile.TemporaryDirectory()
        self._log_file = Path(self._directory.name, "log")
        self._changed = threading.Condition()
        self.received: list[Received] = []
        self._started = False

    def __enter__(self) -> Self:
        self._child = self.peer.start(self._words, self._log_file)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self._wait(lambda: self._started, "did not start")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_for(self, count: int, *, settle_s: float = 0.5) -> list[Received]:
        """Return all that came once `count` messages are there and a moment more has passed."""
        self._wait(lambda: len(self.received) >= count, f"did not get {count} messages")
        time.sleep(settle_s)  # what should not come must have had the time to
        return list(self.received)

    def stop(self) -> None:
        """End the program: its input closes, it shuts down; a program that hangs is killed."""
        end_program(self._child, self._reader, _STOP_SECONDS_MAX)
        self._directory.cleanup()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if not line.startswith("{"):
                continue  # clients print banners of their own
            fields = json.loads(line)
            with self._changed:
                if fields.get("event") == "started":
                    self._started = True
                else:
                    self.received.append(received_message(fields))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + CONSUME_SECONDS_MAX
        with self._changed:
            while not condition():
                left = deadline - time.monotonic()
                if left <= 0 or not self._reader.is_alive():
                    raise PeerFailed(
                        f"{self.peer} {what}; it has {len(self.received)}, and says "
                        f"{self._log_file.read_text(errors='replace')[-3000:]!r}"
                    )
                self._changed.wait(min(left, 0.5))


def received_message(fields: dict[str, Any]) -> Received:
    """Return the message that a line of a peer program tells of."""
    content = Content(fields["tags"] or "", fields["keys"] or "", base64.b64decode(fields["body"]))
    place = (int(fields["queueId"]), int(fields["queueOffset"]))
    times, at_ms = fields.get("reconsumeTimes", 0), fields.get("at", 0.0)
    return Received(content, fields["topic"], fields["msgId"], *place, times, at_ms)


# A program that lives a few seconds beside others should be small and quick to start.
_SMALL: Final = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
# A client that misses the wake-up of its start would share queues 20 s later only.
_SHARE_OFTEN: Final = ("-Drocketmq.client.rebalance.waitInterval=2000",)


def _java(
    client: str, main: str = "Peer", options: Sequence[str] = (*_SMALL, *_SHARE_OFTEN)
) -> Callable[[], list[str]]:
    def command() -> list[str]:
        path = f"{toolchain.java_classes(client)}{os.pathsep}{toolchain.classpath(client)}"
        home = f"-Duser.home={toolchain.cache_dir() / 'home'}"
        return [toolchain.tool("java"), *options, home, "-cp", path, main]

    return command


def _go() -> list[str]:
    return [str(toolchain.go_program())]


def _cpp() -> list[str]:
    return [sys.executable, str(toolchain.PEERS / "cpp_python" / "peer.py")]


def _home() -> dict[str, str]:
    """Keep logs and local offsets out of the user's home."""
    home = toolchain.cache_dir() / "home"
    home.mkdir(exist_ok=True)
    return {"HOME": str(home)}


def _cpp_environment() -> dict[str, str]:
    return {"PYTHONPATH": str(toolchain.cpp_packages())} | _home()


def _ours() -> list[str]:
    return [sys.executable, str(toolchain.PEERS / "aerobee" / "peer.py")]


def _node() -> list[str]:
    return [toolchain.tool("node"), str(toolchain.node_program())]


def mqadmin(home: Path) -> Peer:
    """Return mqadmin as it runs with a home of its own, where `conf/tools.yml` says who it is."""
    options = (*_SMALL, f"-Drocketmq.home.dir={home}")
    return Peer("mqadmin-5.5.0", "java", _java("client-5.5.0", "MqAdmin", options))


JAVA_5: Final = Peer("java-5.5.0", "java", _java("client-5.5.0"), batches=True)
ADMIN: Final = Peer("java-5.5.0-admin", "java", _java("client-5.5.0", "Admin"))
SIGNED: Final = Peer("java-5.5.0-signed", "java", _java("client-5.5.0", "Signed"))
RESET: Final = Peer("java-5.5.0-reset", "java", _java("client-5.5.0", "Reset"))
FIND: Final = Peer("java-5.5.0-find", "java", _java("client-5.5.0", "Find"))
KINDS: Final = Peer("java-5.5.0-kinds", "java", _java("client-5.5.0", "Kinds"))
RECALL: Final = Peer("java-5.5.0-recall", "java", _java("client-5.5.0", "Recall"))
RECORDS: Final = Peer("java-5.5.0-records", "java", _java("client-5.5.0", "Records"))
TRACES: Final = Peer("java-5.5.0-traces", "java", _java("client-5.5.0", "Traces"))
JAVA_5_AS_IT_COMES: Final = Peer("java-5.5.0", "java", _java("client-5.5.0", options=_SMALL))
JAVA_4: Final = Peer("java-4.9.8", "java", _java("client-4.9.8"), batches=True)
GO: Final = Peer("go-2.1.2", "go", _go, batches=True, hashes_utf16=False, environment=_home)
CPP: Final = Peer("cpp-python-0.4.4", "cpp", _cpp, environment=_cpp_environment)
NODE: Final = Peer("node-ali-ons-3.12.0", "node", _node, creates_topics=False, environment=_home)
OURS: Final = Peer("aerobee", "python", _ours, environment=_home)
ALL: Final = (JAVA_5, JAVA_4, GO, CPP, NODE)
