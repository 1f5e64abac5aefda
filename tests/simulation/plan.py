"""What a seed stands for: a cluster, its groups, and what may go wrong in it."""

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Literal


class Kind(StrEnum):
    """How a group consumes."""

    PUSH = "push"
    LITE = "lite"
    ORDERLY = "orderly"
    MIXED = "mixed"  # push members of ours and members that behave as RocketMQ's Java client


class Trouble(StrEnum):
    """What may go wrong besides members that come and leave gracefully."""

    CLIENTS_DIE = "clients die"
    BROKERS_DIE = "brokers die"
    BROKERS_RESTART = "brokers restart"
    NAMESERVERS_DIE = "nameservers die"
    RESETS = "connections are reset"
    HALF_OPEN = "connections stay half open"
    DELAYS = "hosts are cut off for a while"
    FREEZES = "processes stand still for a while"
    SLOW_HANDLERS = "handlers take longer than a hand-over waits"
    FAILING_HANDLERS = "handlers fail"
    CANCELS = "starts and closes are cancelled"
    HURRY = "sends time out while they connect"
    POISON = "messages cannot be unpacked"
    MOVES = "brokers come back elsewhere"
    SETTINGS = "the waits of hand-overs are changed"
    LOST_REPLIES = "replies to producers are lost"


EDGES = (Trouble.CANCELS, Trouble.HURRY, Trouble.POISON, Trouble.MOVES)
LATER = (Trouble.SETTINGS, Trouble.LOST_REPLIES)
"""Both are drawn apart from the others, which therefore stay what they were for a seed."""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One consumer group."""

    name: str
    kind: Kind
    topics: tuple[str, ...]
    members: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One run: `active_s` of coming and going, then quiet."""

    nameservers: int
    brokers: int
    flush: Literal["ASYNC_FLUSH", "SYNC_FLUSH"]
    topics: dict[str, int]  # queues on each broker
    groups: tuple[GroupPlan, ...]
    producers: int
    gap_s: float  # between two messages of a producer
    troubles: frozenset[Trouble]
    active_s: float
    stay_s: float  # how long a member stays, on average
    grows: bool  # topics get more queues on the way
    shared: bool  # a process has a member of each group
    delays: bool = False  # some messages are to be delivered later
    times: bool = False  # some messages have a time of their own, and some of those are recalled
    transactions: bool = False  # a producer decides later about its messages
    once: bool = False  # topics store a producer's retry once
    disk: bool = False  # brokers lie on disks that fail, on machines that lose their power

    def __str__(self) -> str:
        groups = ", ".join(
            f"{group.members} {group.kind} in {group.name} of {'+'.join(group.topics)}"
            for group in self.groups
        )
        troubles = ", ".join(sorted(self.troubles)) or "nothing goes wrong"
        return (
            f"{self.brokers} brokers {self.flush}, {self.nameservers} nameservers, topics"
            f" {self.topics}, {self.producers} producers; {groups}"
            f"{', each process in all groups' * self.shared}; {troubles}"
            f"{', disks fail and power is lost' * self.disk}{', delays' * self.delays}"
            f"{', times and recalls' * self.times}{', transactions' * self.transactions}"
            f"{', retries are stored once' * self.once}"
        )


def draw(seed: int) -> Plan:
    """Return the plan of a seed; of each four seeds one has no trouble at all."""
    dice = Random(f"plan {seed}")
    topics = {f"t{number}": dice.choice((1, 2, 3, 4)) for number in range(dice.choice((1, 2)))}
    names = tuple(topics)
    groups = tuple(
        GroupPlan(
            name=f"g{number}",
            kind=dice.choices(tuple(Kind), (4, 3, 3, 3))[0],
            topics=names if dice.random() < 0.6 else (dice.choice(names),),
            members=dice.choice((2, 3, 4)),
        )
        for number in range(dice.choice((1, 2, 2, 3)))
    )
    troubles = [each for each in Trouble if each not in EDGES + LATER and dice.random() < 0.4]
    edges = Random(f"edges {seed}")
    troubles += [each for each in EDGES if edges.random() < 0.3]
    later = Random(f"later {seed}")
    troubles += [each for each in LATER if later.random() < 0.3]
    return Plan(
        nameservers=dice.choice((1, 2)),
        brokers=dice.choice((1, 2, 2)),
        flush="SYNC_FLUSH" if dice.random() < 0.3 else "ASYNC_FLUSH",
        topics=topics,
        groups=groups,
        producers=dice.choice((1, 2)),
        gap_s=dice.choice((0.1, 0.2, 0.4)),
        troubles=frozenset(troubles if seed % 4 else ()),
        active_s=dice.choice((60.0, 90.0)),
        stay_s=dice.choice((8.0, 20.0, 40.0)),
        grows=dice.random() < 0.4,
        shared=dice.random() < 0.3,
        delays=edges.random() < 0.6,
        times=Random(f"times {seed}").random() < 0.5,
        transactions=Random(f"transactions {seed}").random() < 0.5,
        once=Random(f"once {seed}").random() < 0.5,
        disk=seed % 4 > 1,
    )
