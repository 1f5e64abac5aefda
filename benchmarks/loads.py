"""What is measured, and how much faster than RocketMQ it has to be."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Bar:
    """What the median of a load has to reach against RocketMQ's; None is not asked for."""

    rate_least: float | None = None  # our messages per second are so many times theirs
    cpu_most: float | None = None  # our CPU per message is at most this share of theirs
    p50_most: float | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """How many queues share a load, and where TAGS stand among the properties."""

    topics: int
    queues: int
    tags_first: bool

    @property
    def label(self) -> str:
        """How a table names it."""
        return f"{self.topics}x{self.queues} tags {'first' if self.tags_first else 'last'}"

    @property
    def topic(self) -> str:
        """The name of its topic, or what the names of its topics begin with."""
        return "BenchTopic" if self.topics == 1 else f"Bench{self.queues}Topic"

    def topic_names(self) -> list[str]:
        """Return the topics to be made."""
        if self.topics == 1:
            return [self.topic]
        return [f"{self.topic}{number}" for number in range(self.topics)]


@dataclass(frozen=True, slots=True)
class Load:
    """One row of the table."""

    name: str
    title: str
    workload: str  # of the load generator
    variants: tuple[Variant, ...]
    bar: Bar
    connections: int = 1
    outstanding: int = 1
    body_bytes: int = 1024
    batch: int = 32
    sync_flush: bool = False
    others: bool = False  # Redis Streams and NATS JetStream, too

    @property
    def stores(self) -> bool:
        """Whether the load writes messages."""
        return self.workload != "pull"

    def words(self, variant: Variant) -> list[str]:
        """Return the generator's arguments, without port and times."""
        words = [
            self.workload,
            *("--connections", str(self.connections)),
            *("--outstanding", str(self.outstanding)),
            *("--body", str(self.body_bytes)),
            *("--batch", str(self.batch)),
            *("--topic", variant.topic),
            *("--topics", str(variant.topics)),
            *("--queues", str(variant.queues)),
        ]
        return [*words, "--tags-first"] if variant.tags_first else words


FEW_LAST: Final = Variant(1, 4, tags_first=False)
FEW_FIRST: Final = Variant(1, 4, tags_first=True)
MANY_LAST: Final = Variant(8, 8, tags_first=False)
MANY_FIRST: Final = Variant(8, 8, tags_first=True)
ALL: Final = (FEW_LAST, FEW_FIRST, MANY_LAST, MANY_FIRST)
BOTH: Final = (FEW_LAST, MANY_FIRST)
ONE: Final = (FEW_LAST,)

LOADS: Final = (
    Load(
        "send-1x64", "1 connection x 64 outstanding", "send", ALL,
        Bar(rate_least=4, cpu_most=1 / 5), outstanding=64, others=True,
    ),
    Load(
        "send-16x64", "16 x 64", "send", ALL,
        Bar(rate_least=4), connections=16, outstanding=64, others=True,
    ),
    Load("send-1x1", "1 x 1", "send", BOTH, Bar(rate_least=2, p50_most=1 / 2), others=True),
    Load("send-64x1", "64 x 1", "send", BOTH, Bar(), connections=64, others=True),
    Load("send-128B", "1 x 64, 128 B", "send", BOTH, Bar(), outstanding=64, body_bytes=128),
    Load("batch-32", "SEND_BATCH of 32", "batch", BOTH, Bar(rate_least=1.8), outstanding=4),
    Load(
        "sync-1x64", "SYNC_FLUSH, 1 x 64", "send", BOTH,
        Bar(rate_least=5), outstanding=64, sync_flush=True,
    ),
    Load("pull-32", "PULL of 32", "pull", BOTH, Bar(rate_least=2), connections=4, outstanding=4),
    Load("wake", "long-poll wake-up", "wake", ONE, Bar(p50_most=1 / 2)),
)  # fmt: skip

START_SECONDS_MOST: Final = 0.5
ANONYMOUS_BYTES_MOST: Final = 80_000_000
