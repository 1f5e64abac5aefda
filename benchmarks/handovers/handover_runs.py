"""One run of the hand-over benchmark: a group that grows and shrinks while messages flow."""

import base64
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from support.interop import peers
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.meeting import Meeting
from support.interop.peers import Peer
from support.interop.raw_messages import create_topic, wait_for_route
from support.interop.rocketmq_server import FULL_SPEED, RocketMQ
from support.interop.sessions import Member, Session

from benchmarks.handovers.handover_tally import Outcome, Tally

QUEUES: Final = 16
MEMBERS: Final = 4
CHANGES: Final = 20
# Joining (+) and leaving (-), over and over; two to four members at a time, of which none stays.
STEPS: Final = (
    *((2, True), (3, True), (0, False), (1, False)),
    *((0, True), (1, True), (2, False), (3, False)),
)
SLOW_MS: Final = 5_000
QUIET_S: Final = 25.0  # without a delivery, what is missing at the end is lost
DRAIN_S_MAX: Final = 120.0

JAVA: Final = peers.JAVA_5_AS_IT_COMES
GO: Final = peers.GO
OURS: Final = peers.OURS


@dataclass(frozen=True, slots=True)
class Scenario:
    """What the members do; times in milliseconds, rates in messages per second."""

    name: str
    rate: int = 5_000
    kind: str = "push"
    take_ms: int = 50  # a handler lasts up to this ...
    slow_ms: int = 50  # ... and each `slow_every`th message this
    slow_every: int = 500
    topics: int = 1
    groups: int = 1
    threads: int = 150
    grows: bool = False  # half as many queues again, half way
    gap_s: float = 3.0  # between changes
    prompt: bool = True  # no handler lasts as long as `handoverDrainMillis`
    keeps_up: bool = True  # members have threads to spare, however few they are


PUSH: Final = Scenario("push, handlers of 0-50 ms")
SECOND: Final = Scenario(
    "push, handlers of 0-1 s", rate=100, take_ms=1_000, slow_ms=1_000, gap_s=5.0
)
FIVE: Final = Scenario(
    "push, handlers of 0-50 ms, one of 21 of 5 s",
    rate=400,
    slow_ms=SLOW_MS,
    slow_every=21,  # no divisor of the number of queues: each has its share
    gap_s=5.0,
    prompt=False,
)
SLOW: Final = Scenario(
    "push, handlers of 0-50 ms and of 5 s", slow_ms=SLOW_MS, gap_s=5.0, prompt=False, keeps_up=False
)
GROUPS: Final = Scenario(
    "two groups, two topics, more queues", rate=2_500, topics=2, groups=2, threads=75, grows=True
)
LITE: Final = Scenario("lite pull", kind="lite", take_ms=0, slow_ms=20)


@dataclass(frozen=True, slots=True)
class Run:
    """One scenario with one client on one server."""

    scenario: Scenario
    client: Peer
    server: str
    changes: int
    gap_s: float


def measure(run: Run, note: Callable[[str], None]) -> Outcome:
    """Start everything, let members come and go, stop, and return what became of the messages."""
    with (
        tempfile.TemporaryDirectory(prefix="handover-", ignore_cleanup_errors=True) as folder,
        _cluster(run, Path(folder)) as cluster,
        Meeting(cluster) as meeting,
        ExitStack() as stack,
    ):
        return Traffic(run, meeting, stack, note).outcome()


def _cluster(run: Run, folder: Path) -> Cluster:
    if run.server == RocketMQ.name:
        return RocketMQ(folder, jvm=FULL_SPEED)
    return Aerobee(folder)


class Traffic:
    """The topics, the sender and the members of one run."""

    def __init__(
        self, run: Run, meeting: Meeting, stack: ExitStack, note: Callable[[str], None]
    ) -> None:
        self._run, self._meeting, self._stack, self._note = run, meeting, stack, note
        self._scenario = run.scenario
        self._tally = Tally()
        self._topics = [f"flow-{number}" for number in range(self._scenario.topics)]
        self._groups = [f"group-{number}" for number in range(self._scenario.groups)]
        self._open: dict[int, list[Member]] = {}

    def outcome(self) -> Outcome:
        """Run it."""
        namesrv = self._meeting.cluster.namesrv
        self._make_topics(QUEUES // len(self._topics))
        sessions = [
            self._stack.enter_context(Session(self._run.client, namesrv, on_line=self._note_line))
            for _ in range(MEMBERS)
        ]
        for at in (0, 1):
            self._join(sessions, at)
        with Session(OURS, namesrv) as sender:
            sender.ask(
                "pump",
                topics=",".join(self._topics),
                rate=self._scenario.rate,
                take=self._scenario.take_ms,
                slow=self._scenario.slow_ms,
                slow_every=self._scenario.slow_every,
            )
            self._change(sessions)
            sent = int(sender.ask("pump-stop")["sent"])
        self._drain(sent)
        with ThreadPoolExecutor(MEMBERS) as threads:
            list(threads.map(self._leave, list(self._open)))
        return self._tally.outcome(sent, self._groups)

    def _make_topics(self, queues: int) -> None:
        for topic in self._topics:
            create_topic(self._meeting.cluster.broker, topic, queues)
            wait_for_route(self._meeting.cluster.namesrv, topic)

    def _change(self, sessions: list[Session]) -> None:
        """Let members come and go, one after the other."""
        time.sleep(self._run.gap_s)
        for number, (at, joins) in zip(range(self._run.changes), cycle(STEPS), strict=False):
            self._note(
                f"{self._scenario.name}, {self._run.client} on {self._run.server}: change "
                f"{number + 1} of {self._run.changes}, {self._tally.deliveries():,} deliveries"
            )
            if self._scenario.grows and number == self._run.changes // 2:
                self._make_topics(QUEUES // len(self._topics) * 3 // 2)
            self._tally.note_change(time.time() * 1000, joins=joins)
            if joins:
                self._join(sessions, at)
            else:
                self._leave(at)
            time.sleep(self._run.gap_s)

    def _join(self, sessions: list[Session], at: int) -> None:
        session = sessions[at]
        members = []
        for group in self._groups:
            member = session.open(
                self._scenario.kind,
                group,
                ",".join(self._topics),
                threads=self._scenario.threads,
                instance=f"shared-{session.pid}",
                tags="*",
            )
            members.append(member)
        self._open[at] = members

    def _leave(self, at: int) -> None:
        for member in self._open.pop(at):
            member.close()

    def _drain(self, sent: int) -> None:
        """Return once every group has had everything, or nothing has come for a while."""
        deadline = time.monotonic() + DRAIN_S_MAX
        had, since = self._tally.deliveries(), time.monotonic()
        while any(self._tally.delivered(group) < sent for group in self._groups):
            now = time.monotonic()
            if self._tally.deliveries() != had:
                had, since = self._tally.deliveries(), now
            if now - since > QUIET_S or now > deadline:
                return
            time.sleep(0.1)

    def _note_line(self, session: Session, fields: dict[str, Any]) -> None:
        number = int(base64.b64decode(fields["body"]).split(b" ", 1)[0])
        place = (fields["topic"], fields["queueId"], fields["queueOffset"])
        group = session.group_of(fields["consumer"])
        self._tally.note(group, str(session.pid), place, number, fields["at"])
