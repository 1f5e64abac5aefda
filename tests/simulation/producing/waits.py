"""What producers were promised of messages that nobody may see yet, or ever.

A message that waits has a place where it does so, and is an acknowledged one like all others
(`Ledger.wait`); here is what was asked for it: a time, to be taken back, a transaction's end. Its
body names it; a producer tries each of them once, so one that waits twice was never asked for.
"""

from dataclasses import dataclass, field
from typing import Final

from simulation.judge.attempts import Attempt, Disturbance

SKEW_S: Final = 4.0  # between the clocks of a broker's two lives, or a client's and a broker's


@dataclass(slots=True)
class Recall:
    """A message was taken back: a broker has said so, and its log had it below `position`."""

    broker: str
    position: int


@dataclass(slots=True)
class Waits:
    """All that was asked for; `broken` says what was wrong the moment it was seen."""

    earliest_s: dict[bytes, float] = field(default_factory=dict)  # of those with a time
    recalled: dict[bytes, Recall] = field(default_factory=dict)  # must never be seen
    doubtful: set[bytes] = field(default_factory=set)  # a recall was not answered: may be seen
    commits: dict[bytes, bool] = field(default_factory=dict)  # what each producer has decided
    topics: dict[bytes, str] = field(default_factory=dict)  # of all that were ever tried
    _seen: dict[tuple[str, bytes], Attempt] = field(default_factory=dict)  # by group

    def early(self, attempt: Attempt) -> str:
        """Return what is wrong with when a message is handled."""
        earliest_s = self.earliest_s.get(attempt.body)
        if earliest_s is None or attempt.began_s >= earliest_s:
            return ""
        return f"{attempt} got {attempt.body!r}, which is not due before {earliest_s:.3f} s"

    def hidden(self, attempt: Attempt) -> str:
        """Return what is wrong with that a message is handled at all."""
        if attempt.body in self.recalled:
            return f"{attempt} got {attempt.body!r}, which was recalled"
        if self.commits.get(attempt.body) is False:
            return f"{attempt} got {attempt.body!r}, which was rolled back"
        return ""

    def twice(self, attempt: Attempt, disturbances: list[Disturbance]) -> str:
        """Return what is wrong with where a group gets a message: not where it got it first.

        With power its place may be lost, and it gets another one.
        """
        place = attempt.place
        if attempt.body not in self.topics or place.topic.startswith("%"):  # handlers failed
            return ""
        first = self._seen.setdefault((attempt.group, attempt.body), attempt)
        same = (first.place, first.offset) == (place, attempt.offset)
        if same or any(
            each.subject == first.place.broker and each.lost_with_power(first)
            for each in disturbances
        ):
            return ""
        where = f"{first.place} {first.offset} and {place} {attempt.offset}"
        return f"{attempt.group} got {attempt.body!r} at {where}"

    def power_lost(self, broker: str, flushed: int) -> None:
        """Power has taken what was not flushed, perhaps also that something was taken back."""
        for body, recall in list(self.recalled.items()):
            if recall.broker == broker and recall.position > flushed:
                del self.recalled[body]
                self.doubtful.add(body)
