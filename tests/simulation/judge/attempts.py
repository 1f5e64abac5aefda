"""What handlers did with messages, and what befell those who had to do with it."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from simulation.judge.causes import SETTLED_S, Cause


class Place(NamedTuple):
    """One queue of one broker."""

    topic: str
    broker: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker}/{self.queue_id}"


class Outcome(StrEnum):
    """How handling a message once ended."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"  # said so itself, and gets it again
    GIVEN_UP = "given up"  # cancelled, or its process died


@dataclass(slots=True)
class Attempt:
    """One handler's work on one message."""

    group: str
    member: str
    place: Place
    offset: int
    body: bytes
    began_s: float
    ended_s: float | None = None
    outcome: Outcome = Outcome.RUNNING
    waited_as: str = ""  # which delayed message of its broker it was, level-offset

    def subjects(self) -> tuple[str, str]:
        """Return whose disturbance may excuse it: the process, and its member of that group."""
        return self.member, f"{self.member} in {self.group}"

    def __str__(self) -> str:
        end = "" if self.ended_s is None else f"-{self.ended_s:.3f}"
        return f"{self.member} at {self.began_s:.3f}{end} ({self.outcome})"


@dataclass(slots=True)
class Disturbance:
    """Something that excuses redelivery of what `subject`, a member or a broker, has to do with."""

    subject: str
    cause: Cause
    begins_s: float
    ends_s: float

    def excuses(self, earlier: Attempt, later: Attempt, until_s: float) -> bool:
        """Whether it reaches from the one delivery to the other, which is to be in time."""
        ended_s = math.inf if earlier.ended_s is None else earlier.ended_s
        return (
            ended_s >= self.begins_s - self.cause.reach.before_s
            and earlier.began_s <= self.ends_s + SETTLED_S
            and self.begins_s <= later.began_s <= until_s
        )

    def lost_with_power(self, first: Attempt) -> bool:
        """Whether the message of an attempt may have lost its place, so that it gets another one.

        Members still handle what they had fetched while the broker is away, and just after.
        """
        lost = self.cause is Cause.BROKER_LOST_POWER
        return lost and first.began_s <= self.ends_s + SETTLED_S
