"""A peer program that is told what to do while it runs: consumers come and go in one process.

Every command is one line and is answered by one JSON line, in order; messages come between the
answers and name their consumer (see `tests/interop/README.md`).
"""

import base64
import json
import queue
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

from support.interop.peers import (
    Content,
    Peer,
    PeerFailed,
    Received,
    end_program,
    received_message,
)

ANSWER_SECONDS_MAX: Final = 60.0
_STOP_SECONDS_MAX: Final = 30.0


class Session:
    """One running peer program; leave it as a context manager, which ends the program.

    `on_line` gets every line about a consumer instead of its `received`, for whoever wants to be
    quicker; it is called in the reading thread. An answer may take `answer_s` seconds.
    """

    def __init__(
        self,
        peer: Peer,
        namesrv: str,
        *,
        on_line: Callable[["Session", dict[str, Any]], None] | None = None,
        answer_s: float = ANSWER_SECONDS_MAX,
    ) -> None:
        self.peer = peer
        self.namesrv = namesrv
        self._on_line = on_line
        self._answer_s = answer_s
        self._directory = tempfile.TemporaryDirectory()
        self._log_file = Path(self._directory.name, "log")
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._asking = threading.Lock()
        self._members: dict[str, Member] = {}
        self._count = 0
        self.changed = threading.Condition()

    def __enter__(self) -> Self:
        self._child = self.peer.start(["session", self.namesrv], self._log_file)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._answer("start")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process."""
        return self._child.pid

    def open(self, kind: str, group: str, topics: str, **options: object) -> "Member":
        """Start a consumer; `kind` is push, orderly, broadcast or lite.

        Options: `tags` or `sql`, `retries`, `threads`, `instance`, `assign` (queues).
        """
        self._count += 1
        member = Member(self, f"{self.peer.name}#{self._count}", group)
        self._members[member.name] = member
        # one client per consumer, whatever the client would share otherwise
        options = {"instance": f"{self._child.pid}-{self._count}"} | options
        self.ask("open", name=member.name, kind=kind, group=group, topics=topics, **options)
        return member

    def send(self, topic: str, content: Content, **options: object) -> dict[str, Any]:
        """Send one message; `queue`, `level` and properties as `{"p.NAME": value}`."""
        body = base64.b64encode(content.body).decode()
        fields = {"topic": topic, "tags": content.tags, "keys": content.keys, "body": body}
        return self.ask("send", **fields, **options)

    def ask(self, word: str, **fields: object) -> dict[str, Any]:
        """Give a command and return its answer; PeerFailed when it says that it failed."""
        line = "\t".join([word, *(f"{key}={value}" for key, value in fields.items())])
        with self._asking:
            assert self._child.stdin is not None
            self._child.stdin.write(line + "\n")
            self._child.stdin.flush()
            return self._answer(line)

    def stop(self) -> None:
        """End the program: its input closes, it closes its consumers; what hangs is killed."""
        end_program(self._child, self._reader, _STOP_SECONDS_MAX)
        self._directory.cleanup()

    def group_of(self, member: str) -> str:
        """Return the group of a consumer by its name."""
        return self._members[member].group

    def came(self) -> dict[str, list[tuple[bytes, int, int]]]:
        """What the open consumers got last: bodies, queues and offsets."""
        return {
            member.name: [
                (m.content.body[:60], m.queue_id, m.queue_offset) for m in member.received[-40:]
            ]
            for member in self._members.values()
            if member.is_open
        }

    def log(self) -> str:
        """What the program complained about."""
        return self._log_file.read_text(errors="replace")[-3000:]

    def _answer(self, what: str) -> dict[str, Any]:
        try:
            answer = self._answers.get(timeout=self._answer_s)
        except queue.Empty:
            raise PeerFailed(f"{self.peer} does not answer {what!r}: {self.log()!r}") from None
        if "failed" in answer:
            raise PeerFailed(f"{self.peer} failed {what!r}: {answer['failed']} {self.log()!r}")
        return answer

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if not line.startswith("{"):
                continue  # clients print banners of their own
            fields = json.loads(line)
            if "consumer" not in fields:
                self._answers.put(fields)
            elif self._on_line is not None:
                self._on_line(self, fields)
            else:
                with self.changed:
                    self._members[fields["consumer"]].take(fields)
                    self.changed.notify_all()
        self._answers.put({"failed": "the program has ended"})


class Member:
    """An open consumer of a session; `received` grows while it runs."""

    def __init__(self, session: Session, name: str, group: str) -> None:
        self.session = session
        self.name = name
        self.group = group
        self.received: list[Received] = []
        self.is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_open:
            self.close()

    def close(self) -> None:
        """Leave the group as the client's own shutdown does."""
        self.is_open = False
        self.session.ask("close", name=self.name)

    def steer(self, word: str, **fields: object) -> dict[str, Any]:
        """Give a command to this consumer (seek, pause, ...)."""
        return self.session.ask(word, name=self.name, **fields)

    def take(self, fields: dict[str, Any]) -> None:
        """Note what the program says of this consumer."""
        self.received.append(received_message(fields))

    def wait_for(self, count: int, *, settle_s: float = 0.3, seconds: float = 60) -> list[Received]:
        """Return all that came once `count` messages are there and a moment more has passed."""
        self.wait_until(lambda: len(self.received) >= count, seconds, f"{count} messages")
        time.sleep(settle_s)  # what should not come must have had the time to
        return list(self.received)

    def bodies(self) -> list[bytes]:
        """The bodies that came so far, in their order."""
        return [message.content.body for message in list(self.received)]

    def wait_until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Return once `condition` holds, looked at whenever something comes."""
        wait_until(self.session, condition, seconds, f"{self.name}: {what}")


def wait_until(
    session: Session, condition: Callable[[], bool], seconds: float, what: str = "the condition"
) -> None:
    """Return once `condition` holds; PeerFailed with what came so far when time is up."""
    deadline = time.monotonic() + seconds
    with session.changed:
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                came = session.came()
                raise PeerFailed(f"{what} not within {seconds:g} s; {came}; {session.log()!r}")
            session.changed.wait(min(left, 0.2))
