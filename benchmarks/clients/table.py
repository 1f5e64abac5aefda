"""Who is measured: each client, its server, its program, and how it is set up.

What a client's own documentation advises for throughput is what it gets; `settings` says it.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from support.interop import toolchain

from benchmarks.clients.servers import PatientAerobee, PatientRocketMQ
from benchmarks.loads import KAFKA, NATS, REDIS
from benchmarks.targets import compiling
from benchmarks.targets.kafka import KafkaTarget
from benchmarks.targets.others import NatsTarget, RedisTarget
from benchmarks.targets.target import Target

OURS: Final = "Aerobee"
OURS_ELSEWHERE: Final = "Aerobee on RocketMQ"
CONFLUENT: Final = "confluent-kafka"


@dataclass(frozen=True, slots=True)
class Load:
    """One thing that clients do; messages a second unless `figure` says otherwise."""

    name: str
    title: str
    sends: bool
    figure: str = "per_second"


LOADS: Final = (
    Load("send", "sent as fast as it goes, an outcome for each", sends=True),
    Load("send-64", "sent, each waited for, 64 in flight", sends=True),
    Load("lone", "sent one after the other", sends=True, figure="p50_us"),
    Load("trip", "from a lone send to who consumes it", sends=True, figure="p50_us"),
    Load("batches", "consumed in batches", sends=False),
    Load("polled", "consumed by poll()", sends=False),
    Load("singles", "consumed one by one", sends=False),
    Load("ahead", "100,000 messages fetched ahead", sends=False, figure="bytes_each"),
)
TITLES: Final = {load.name: load.title for load in LOADS}


@dataclass(frozen=True, slots=True)
class Program:
    """How a client's process is started, and in which environment."""

    command: Callable[[], list[str]]
    paths: Callable[[], list[str]] = list
    """Returns what goes on its PYTHONPATH, installed."""


@dataclass(frozen=True, slots=True)
class Client:
    """One client against one kind of server; `settings` says, by load, how it is set up."""

    name: str
    server: type[Target]
    program: Program
    settings: Mapping[str, str] = field(repr=False)
    version: str = ""
    is_slow: bool = False  # consumes a fifth of the messages, to take as long as others
    warms_up: bool = False

    @property
    def slug(self) -> str:
        """Its name as a topic can have it."""
        return "".join(each if each.isalnum() else "-" for each in self.name.lower())


def _python(module: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"benchmarks.clients.programs.{module}"]


def _of(module: str, *pinned: str) -> Program:
    return Program(
        _python(module), lambda: [str(compiling.python_packages(module, pinned))] if pinned else []
    )


def _java() -> list[str]:
    home = f"-Duser.home={toolchain.cache_dir() / 'home'}"
    soon = "-Drocketmq.client.rebalance.waitInterval=2000"
    path = compiling.rocketmq_load()
    return ["java", "-Xms1g", "-Xmx1g", soon, home, "-cp", path, "RocketMQLoad"]


_OURS: Final = {
    "send": "send_soon, 2,048 handles under way, each looked at",
    "send-64": "await send in 64 tasks",
    "lone": "await send",
    "trip": "await send, push consumer, handler of one message",
    "batches": "async handler with batch=1024, which gets what a pull brought: up to 256 KiB of "
    "our broker, 32 messages of RocketMQ's",
    "polled": "poll()",
    "singles": "async handler of one message",
    "ahead": "LitePullSettings without bounds",
}

CLIENTS: Final = (
    Client(OURS, PatientAerobee, _of("aerobee_client"), _OURS),
    Client(OURS_ELSEWHERE, PatientRocketMQ, _of("aerobee_client"), _OURS),
    Client(
        CONFLUENT,
        KafkaTarget,
        _of("kafka_confluent", "confluent-kafka==2.16.1"),
        {
            "send": "linger.ms=20, batch.num.messages=10000, acks=all, callback each, poll(0) "
            "once in 128; 100,000 under way, as by default",
            "send-64": "linger.ms=0, acks=all, 64 without their callback at a time",
            "lone": "linger.ms=0, acks=all, poll until its callback",
            "trip": "linger.ms=0; poll() of a consumer",
            "batches": "consume(1000)",
            "singles": "poll()",
            "ahead": "queued.min.messages=400000, queued.max.messages.kbytes=1 GiB",
        },
        version="2.16.1",
    ),
    Client(
        "aiokafka",
        KafkaTarget,
        _of(
            "kafka_aiokafka",
            *("aiokafka==0.14.0", "async-timeout==5.0.1", "packaging==26.4"),
            "typing_extensions==4.16.0",
        ),
        {
            "send": "send(), 10,000 futures under way, linger_ms=5, max_batch_size=128 KiB, "
            "acks=all",
            "send-64": "send_and_wait in 64 tasks, linger_ms=0, acks=all",
            "lone": "send_and_wait, linger_ms=0, acks=all",
            "trip": "send_and_wait, linger_ms=0; getone()",
            "batches": "getmany(max_records=1000)",
            "singles": "async for",
            "ahead": "a fetch of 64 MiB for each partition, as Kafka packs it",
        },
        version="0.14.0",
    ),
    Client(
        "nats-py",
        NatsTarget,
        _of("nats_py", "nats-py==2.16.0"),
        {
            "send": "publish_async, 4,000 under way, as by default; file storage",
            "send-64": "js.publish in 64 tasks",
            "lone": "js.publish",
            "trip": "js.publish; next_msg of a push consumer, AckPolicy.NONE",
            "batches": "pull consumer, fetch(1000), one acknowledgement for all (AckPolicy.ALL)",
            "singles": "push consumer with a callback, each acknowledged",
            "ahead": "pull consumer, fetch(10,000) again and again, kept",
        },
        version="2.16.0",
        is_slow=True,
    ),
    Client(
        "redis-py",
        RedisTarget,
        _of("redis_py", "redis==8.1.0", "hiredis==3.5.0"),
        {
            "send": "pipelines of 500 XADD without MULTI, two in turns; hiredis; fields tag, key, "
            "body",
            "send-64": "XADD in 64 tasks, a connection each from the pool; hiredis",
            "lone": "XADD; hiredis",
            "trip": "XADD; XREAD BLOCK by another connection; hiredis",
            "batches": "XREADGROUP COUNT 1000 and an XACK of them; hiredis",
            "ahead": "fetches nothing ahead: one XREAD of 100,000",
        },
        version="8.1.0",
    ),
    Client(
        "C++ binding",
        PatientAerobee,
        Program(_python("rocketmq_cpp"), lambda: [str(toolchain.cpp_packages())]),
        {
            "send-64": "send_sync in 64 threads: it has no other send that is acknowledged",
            "lone": "send_sync",
            "trip": "send_sync; push consumer",
            "singles": "push consumer, 20 threads",
        },
        version="rocketmq 0.4.4",
        is_slow=True,
    ),
    Client(
        "Java",
        PatientAerobee,
        Program(_java),
        {
            "send": "send with a SendCallback, 1,024 under way",
            "send-64": "send with a SendCallback, 64 under way",
            "lone": "send",
            "trip": "send; push consumer, consumeMessageBatchMaxSize=1",
            "batches": "consumeMessageBatchMaxSize=32, 20 threads",
            "singles": "consumeMessageBatchMaxSize=1, 20 threads",
        },
        version="5.5.0",
        warms_up=True,
    ),
)
RIVALS: Final = tuple(each.name for each in CLIENTS if each.name not in (OURS, OURS_ELSEWHERE))
SERVERS: Final = {
    PatientAerobee: OURS,
    PatientRocketMQ: "RocketMQ",
    KafkaTarget: KAFKA,
    NatsTarget: NATS,
    RedisTarget: REDIS,
}


def keeper(server: type[Target]) -> Client:
    """Return the client that makes and fills a server's topics, measured itself or not."""
    return next(client for client in CLIENTS if client.server is server)


def unobtainable(client: Client) -> str | None:
    """Install what a client needs; return why it cannot be had, None where it can."""
    first = keeper(client.server)
    if first is not client and (why := unobtainable(first)) is not None:
        return f"{first.name}, which makes its topics, cannot be had: {why}"
    try:
        client.program.paths()
        client.program.command()
        if client.server is NatsTarget:
            compiling.nats_program()
        elif client.server is KafkaTarget:
            compiling.kafka_classes()
        elif client.server is RedisTarget:
            compiling.tool("redis-server", "apt-get install redis-server")
        elif client.server is PatientRocketMQ:
            toolchain.classpath("server-5.5.0")
    except (
        compiling.ToolMissing,
        compiling.BuildFailed,
        toolchain.ToolMissing,
        toolchain.BuildFailed,
    ) as error:
        return str(error)
    return None
