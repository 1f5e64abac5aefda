"""What is measured, and how much faster than RocketMQ it has to be."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Bar:
    """What the median of a load has to reach against RocketMQ's; None is not asked for."""

    rate_least: float | None = None  # our messages per second are so many times theirs
    cpu_most: float | None = None  # our CPU per message is at most this share of theirs
    p50_most: float | None = None
    per_second_least: float | None = None  # ours, whatever theirs are
    p99_us_most: float | None = None


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
    others: tuple[str, ...] = ()  # servers beside Aerobee and RocketMQ that carry it
    all_cpus: bool = False  # server and generator share what there is

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
MANY_FIRST: Final = Variant(8, 8, tags_first=True)
BOTH: Final = (FEW_LAST, MANY_FIRST)
ONE: Final = (FEW_LAST,)

REDIS: Final = "Redis Streams"
NATS: Final = "NATS JetStream"
KAFKA: Final = "Kafka"
STREAMS: Final = (REDIS, NATS, KAFKA)

LOADS: Final = (
    Load(
        "send-1x64", "1 connection x 64 outstanding", "send", BOTH,
        Bar(rate_least=4, cpu_most=1 / 5, per_second_least=400_000, p99_us_most=800),
        outstanding=64, others=STREAMS,
    ),
    Load(
        "send-16x64", "16 x 64", "send", BOTH,
        Bar(rate_least=4, per_second_least=600_000, p99_us_most=5_000),
        connections=16, outstanding=64, others=STREAMS,
    ),
    Load(
        "send-all-cpus", "16 x 64, all CPUs for everybody", "send", ONE, Bar(rate_least=4),
        connections=16, outstanding=64, others=STREAMS, all_cpus=True,
    ),
    Load(
        "send-1x1", "1 x 1", "send", ONE, Bar(rate_least=2, p50_most=1 / 2), others=(REDIS, NATS)
    ),
    Load("send-64x1", "64 x 1", "send", ONE, Bar(), connections=64, others=(REDIS, NATS)),
    Load(
        "send-128B", "1 x 64, 128 B", "send", BOTH, Bar(per_second_least=700_000), outstanding=64,
        body_bytes=128,
    ),
    Load(
        "batch-1x64", "SEND_BATCH of 32, 1 x 64", "batch", BOTH,
        Bar(rate_least=4, per_second_least=650_000), outstanding=64, others=(KAFKA,),
    ),
    Load(
        "batch-4x4", "SEND_BATCH of 32, 4 x 4", "batch", BOTH,
        Bar(rate_least=4, per_second_least=900_000), connections=4, outstanding=4,
    ),
    Load(
        "sync-1x64", "SYNC_FLUSH, 1 x 64", "send", BOTH,
        Bar(rate_least=5, per_second_least=200_000, p99_us_most=1_000), outstanding=64,
        sync_flush=True,
    ),
    Load(
        "pull-32", "PULL of 32", "pull", BOTH, Bar(rate_least=4.5, per_second_least=1_800_000),
        connections=4, outstanding=4, others=(KAFKA,),
    ),
    Load(
        "transact-1x64", "half message and commit, 1 x 64", "transact", ONE, Bar(rate_least=4),
        outstanding=64,
    ),
    Load("wake", "long-poll wake-up", "wake", ONE, Bar(p50_most=1 / 2)),
)  # fmt: skip

START_SECONDS_MOST: Final = 0.35
ANONYMOUS_BYTES_MOST: Final = 50_000_000
