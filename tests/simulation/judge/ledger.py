"""What producers were told, what handlers did, what brokers noted; and what must hold of it.

The ledger sees all processes at once. `violations` judges when a run is over, for only then is it
known which disturbances there were and what they excuse.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from simulation.judge.attempts import Attempt, Disturbance, Outcome, Place
from simulation.judge.causes import ASK_S, COMMIT_S, DOWN, LEASE_S, SETTLED_S, Cause
from simulation.producing.waits import Waits
from simulation.stage.trace import Trace


class Kind(StrEnum):
    """What a run must keep."""

    LOST = "nothing acknowledged is lost"
    ONCE = "what a producer sends again to the same broker is stored once"
    TWICE = "nothing is delivered twice without a crash or a time-out"
    WENT_BACK = "committed offsets never go back"
    ORDER = "orderly queues are handled in order, by one member at a time"
    HIDDEN = "what was rolled back, or recalled in time, is never seen"
    EARLY = "nothing is seen before its time"
    LATE = "a time is kept, unless its broker was kept from it"
    OWNERS = "after quiet, every queue has exactly one owner"
    SLOW = "no unmodified client waits for an offset longer than it can"
    ERROR = "no code meets an error that it does not expect"


class Violation(NamedTuple):
    """Something that must not have happened."""

    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"[{self.kind.name}] {self.what}"


@dataclass(slots=True)
class Group:
    """What is demanded of one group, and what was seen of it."""

    name: str
    topics: tuple[str, ...]
    orderly: bool = False
    foreign: bool = False  # with members that do not hand over as ours do: duplicates are theirs
    done: set[bytes] = field(default_factory=set)
    attempts: dict[tuple[Place, int], list[Attempt]] = field(
        default_factory=lambda: defaultdict(list)
    )
    running: dict[Place, list[Attempt]] = field(default_factory=lambda: defaultdict(list))
    furthest: dict[Place, int] = field(default_factory=dict)  # offset after the last one done
    stored: dict[tuple[str, bytes], Attempt] = field(default_factory=dict)  # the first at a broker
    waited: dict[tuple[str, str, bytes], Attempt] = field(default_factory=dict)  # the first at each


class Ledger:
    """The facts of one run; see `violations`."""

    def __init__(self, now_s: Callable[[], float], trace: Trace) -> None:
        self.groups: dict[str, Group] = {}
        self.acknowledged: dict[bytes, tuple[Place, int]] = {}
        self.delayed: dict[bytes, str] = {}  # the topics of those that wait elsewhere first
        self.waits = Waits()  # what was asked for some of those, and for messages in doubt
        self.disturbances: list[Disturbance] = []
        self.starved: list[tuple[str, float, float]] = []  # brokers whose disk gave nothing
        self.duplicates: list[tuple[Attempt, Attempt]] = []
        self.powerless: set[str] = set()  # brokers that have lost their power
        self.shortened: set[str] = set()  # brokers whose queues have lost their ends to power loss
        self.doubted: dict[Place, list[range]] = defaultdict(list)  # power may have taken them
        self.broken: list[Violation] = []  # what was wrong the moment it was seen
        self.once = False  # topics store a producer's retry once
        self.poison = False  # there are messages that nobody handles, and orderly queues pass
        self._now_s = now_s
        self._trace = trace
        self._committed: dict[tuple[str, Place], int] = {}

    # --- what is noted ---

    def acknowledge(self, body: bytes, place: Place, offset: int) -> None:
        """A producer was told that its message is stored."""
        self.acknowledged[body] = (place, offset)

    def wait(self, body: bytes, topic: str, place: Place, offset: int) -> None:
        """A producer was told that its message is stored, and waits at a place for its topic."""
        self.acknowledged[body] = (place, offset)
        self.delayed[body] = topic

    def begin(
        self, group: str, member: str, place: Place, offset: int, body: bytes, waited_as: str = ""
    ) -> Attempt:
        """A handler begins with a message."""
        seen = self.groups[group]
        attempt = Attempt(group, member, place, offset, body, self._now_s(), waited_as=waited_as)
        self._check_wait(attempt)
        if waited_as:
            self._check_waited(seen, attempt)
        elif self.once:
            self._check_once(seen, attempt)
        for earlier in reversed(seen.attempts[place, offset]):
            same = earlier.body == body  # else the disk lost that message, and its offset was free
            if same and earlier.outcome in (Outcome.DONE, Outcome.RUNNING):
                self.duplicates.append((earlier, attempt))
                self._trace.note(f"twice: {group} {place} {offset}: {earlier} and {member}")
                break
        if seen.orderly:
            self._check_order(seen, attempt)
        seen.attempts[place, offset].append(attempt)
        seen.running[place].append(attempt)
        self._trace.count(f"begin {group} {member} {place} {offset}".encode())
        return attempt

    def end(self, attempt: Attempt, outcome: Outcome) -> None:
        """A handler has ended, or will never end."""
        if attempt.outcome is not Outcome.RUNNING:
            return
        attempt.outcome, attempt.ended_s = outcome, self._now_s()
        group = self.groups[attempt.group]
        group.running[attempt.place].remove(attempt)
        if outcome is Outcome.DONE:
            group.done.add(attempt.body)
            after = attempt.offset + 1
            group.furthest[attempt.place] = max(group.furthest.get(attempt.place, 0), after)
        self._trace.count(f"end {attempt} {attempt.place} {attempt.offset}".encode())

    def give_up_all(self, member: str) -> None:
        """A member's process has died: none of its handlers ends."""
        for group in self.groups.values():
            for attempts in group.running.values():
                for attempt in [each for each in attempts if each.member == member]:
                    self.end(attempt, Outcome.GIVEN_UP)

    def disturb(self, subject: str, cause: Cause, seconds: float = 0.0) -> None:
        """Something went wrong at a member or broker, for so long."""
        now_s = self._now_s()
        self.disturbances.append(Disturbance(subject, cause, now_s, now_s + seconds))

    def down(self, broker: str, cause: Cause) -> None:
        """A broker does not run from now on, until it is back."""
        self.disturb(broker, cause, math.inf)

    def back(self, broker: str) -> None:
        """A broker runs again."""
        for each in self.disturbances:
            if each.subject == broker and each.ends_s == math.inf:
                each.ends_s = self._now_s()

    def disturbed_since(self, subjects: set[str], since_s: float) -> bool:
        """Whether something befell one of these later than that, or lasted longer."""
        return any(
            each.subject in subjects and (each.begins_s > since_s or each.ends_s > since_s)
            for each in self.disturbances
        )

    def starve(self, broker: str, seconds: float) -> None:
        """A broker's disk gives no room, or fails, for so long: what is due there waits."""
        self.starved.append((broker, self._now_s(), self._now_s() + seconds))

    def held_up(self, broker: str, begin_s: float, end_s: float) -> bool:
        """Whether a broker was kept from its work between two moments."""
        return self._disturbed({broker}, begin_s, end_s) or any(
            each == broker and begins_s <= end_s and ends_s >= begin_s
            for each, begins_s, ends_s in self.starved
        )

    def commit(self, group: str, place: Place, offset: int, remote: str = "") -> None:
        """A broker has noted an offset that somebody committed."""
        before = self._committed.get((group, place), -1)
        self._committed[group, place] = offset
        if offset < before and place.broker not in self.shortened and not self._free(place.broker):
            self.broke(Kind.WENT_BACK, f"{group} {place} from {before} to {offset} by {remote}")

    def _free(self, broker: str) -> bool:
        """Whether everybody may commit: the broker waits for nobody, or did until just now."""
        return any(
            each.subject == broker
            and each.cause is Cause.WAITS_CHANGED
            and each.begins_s <= self._now_s() <= each.ends_s + COMMIT_S
            for each in self.disturbances
        )

    def forget_commits(self, broker: str) -> None:
        """A broker has been killed: it comes back with the offsets that it had saved."""
        for key in [key for key in self._committed if key[1].broker == broker]:
            del self._committed[key]

    def committed(self, group: str, place: Place) -> int | None:
        """Return the offset that was committed last."""
        return self._committed.get((group, place))

    def late_answer(self, member: str, place: Place, waited_s: float) -> None:
        """A member that must not be kept waiting has waited for an offset; with a reason?"""
        began_s = self._now_s() - waited_s
        if not self._disturbed({member, place.broker}, began_s - ASK_S, self._now_s()):
            self.broke(Kind.SLOW, f"{member} waited {waited_s:.3f} s for the offset of {place}")

    def broke(self, kind: Kind, what: str) -> None:
        """Something happened that is wrong whatever comes after it."""
        violation = Violation(kind, f"at {self._now_s():.3f} s: {what}")
        self.broken.append(violation)
        self._trace.note(str(violation))

    # --- what must hold ---

    def violations(self) -> list[Violation]:
        """Return everything that must not have happened."""
        found = list(self.broken)
        for group in self.groups.values():
            lost = self.unhandled(group)
            if lost:
                what = f"{group.name} never handled {len(lost)}: {self._places(lost)}"
                found.append(Violation(Kind.LOST, what))
        for earlier, later in self.duplicates:
            if not self.groups[later.group].foreign and not self._excused(earlier, later):
                what = f"{later.group} got {later.place} {later.offset}: {earlier} and {later}"
                found.append(Violation(Kind.TWICE, what))
        return found

    def unhandled(self, group: Group) -> list[bytes]:
        """Return the acknowledged messages that a group has not handled with success."""
        return [
            body
            for body, (place, _) in self.acknowledged.items()
            if self.delayed.get(body, place.topic) in group.topics
            and body not in group.done
            and not self._passed(body)
        ]

    def _check_waited(self, group: Group, attempt: Attempt) -> None:
        """A delayed message is put into its topic once, unless power took that from the log."""
        broker = attempt.place.broker
        first = group.waited.setdefault((broker, attempt.waited_as, attempt.body), attempt)
        if (first.place, first.offset) != (attempt.place, attempt.offset) and not any(
            each.subject == broker and each.lost_with_power(first) for each in self.disturbances
        ):
            what = f"{group.name} got the delayed message {attempt.waited_as} of {broker} at"
            where = f"{first.place} {first.offset} and {attempt.place} {attempt.offset}"
            self.broke(Kind.TWICE, f"{what} {where}")

    def _check_wait(self, attempt: Attempt) -> None:
        """What has a time, or depends on a decision, is seen as that has it."""
        waits = self.waits
        for kind, what in (
            (Kind.HIDDEN, waits.hidden(attempt)),
            (Kind.EARLY, waits.early(attempt)),
            (Kind.TWICE, waits.twice(attempt, self.disturbances)),
        ):
            if what:
                self.broke(kind, what)

    def _check_once(self, group: Group, attempt: Attempt) -> None:
        """A message has one place at each broker, unless power has taken that from the log."""
        place = attempt.place
        if place.topic.startswith("%") or place.broker in self.powerless:
            return
        first = group.stored.setdefault((place.broker, attempt.body), attempt)
        if (first.place, first.offset) != (place, attempt.offset):
            where = f"{first.place} {first.offset} and {place} {attempt.offset}"
            self.broke(Kind.ONCE, f"{group.name} got one message at {where}")

    def _passed(self, body: bytes) -> bool:
        """Whether a message has an offset that another one may have had, which power loss took.

        Members that had that one know that they are behind it, so they never ask: with ASYNC_FLUSH
        alone, and only where they had not committed so far.
        """
        place, offset = self.acknowledged[body]
        return any(offset in lost for lost in self.doubted.get(place, ()))

    def _places(self, bodies: Iterable[bytes]) -> str:
        shown = [f"{self.acknowledged[body][0]}:{self.acknowledged[body][1]}" for body in bodies]
        return ", ".join(shown[:5]) + (" ..." if len(shown) > 5 else "")

    def _excused(self, earlier: Attempt, later: Attempt) -> bool:
        """Whether a member that had the message, or its broker, was disturbed at the time."""
        subjects = {*earlier.subjects(), *later.subjects(), earlier.place.broker}
        orderly, broker = self.groups[later.group].orderly, earlier.place.broker
        return any(
            each.subject in subjects
            and each.excuses(earlier, later, self._reaches_s(broker, each) + LEASE_S * orderly)
            for each in self.disturbances
        )

    def _reaches_s(self, broker: str, trouble: Disturbance) -> float:
        """Return until when a trouble reaches; longer where the broker is down again before."""
        until_s = trouble.ends_s + trouble.cause.reach.after_s
        for each in self.disturbances:  # in the order in which they began
            if each.subject == broker and each.cause in DOWN and each.begins_s <= until_s:
                until_s = max(until_s, each.ends_s + each.cause.reach.after_s)
        return until_s

    def _disturbed(
        self, subjects: set[str], begin_s: float, end_s: float, *, locks: bool = False
    ) -> bool:
        """Whether something befell one of these between two moments."""
        return any(
            each.subject in subjects
            and each.cause.reach.locks >= locks
            and each.begins_s <= end_s
            and each.ends_s >= begin_s
            for each in self.disturbances
        )

    def _check_order(self, group: Group, attempt: Attempt) -> None:
        """One at a time, and none before all that stand before it in the queue are done."""
        what = f"{attempt} began with {attempt.place} {attempt.offset}"
        others = [each for each in group.running[attempt.place] if not self._may_overlap(each)]
        if others:
            self.broke(Kind.ORDER, f"{what} while {others[0]} works on {others[0].offset}")
        next_offset = group.furthest.get(attempt.place, 0)
        if attempt.offset > next_offset and not self._nobodys(attempt, next_offset):
            self.broke(Kind.ORDER, f"{what} though {next_offset} is not done")

    def _nobodys(self, attempt: Attempt, next_offset: int) -> bool:
        """Whether what stands before an attempt, and is not done, was acknowledged to nobody.

        Poison is passed, and so is a hole that power has left where nothing was promised.
        """
        if not self.poison and attempt.place.broker not in self.powerless:
            return False
        place, before = attempt.place, range(next_offset, attempt.offset)
        return not any(
            at == place and offset in before for at, offset in self.acknowledged.values()
        )

    def _may_overlap(self, running: Attempt) -> bool:
        """Whether a handler that still runs need not have hindered the next one."""
        subjects = {*running.subjects(), running.place.broker}
        began_s = running.began_s - SETTLED_S
        return self._disturbed(subjects, began_s, self._now_s(), locks=True)
