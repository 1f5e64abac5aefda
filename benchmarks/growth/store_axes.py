"""Cost over what a store holds and is handed: topics, the log, batches, bodies."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.generator import LoadFailed, Measurement
from benchmarks.growth.axis import Axis, Values
from benchmarks.growth.client_axes import MEMORY, REST
from benchmarks.growth.lines import P99_RISE_MOST, Kind, Line
from benchmarks.growth.server import BODY_BYTES, WINDOW, Refused, Server
from benchmarks.growth.watching import Checkpoints

QUEUES: Final = 4
TOPIC: Final = "Growth"
MIB: Final = 1 << 20
RECORD_BYTES: Final = 1240  # of a message of 1 KiB, about
FILL_BATCH: Final = 32
FILL_MIB: Final = 1024  # in one run of the generator
CPU_SPAN_MOST: Final = 2.0  # of a message among 40,000 queues and among 40
START_S_MOST: Final = 5.0  # over 100,000 queues
REST_MB_MOST: Final = 300
OPEN_BYTES_MAX: Final = 8 * MIB  # of requests on their way at once

CPU: Final = Line("cpu_us", "CPU us a message", resolution=0.1)
P99: Final = Line("p99_us", "p99 us", resolution=200, rise_most=P99_RISE_MOST)
RATE: Final = Line("per_second", "messages/s", Kind.SHOWN)
MEGABYTES: Final = Line("mb_per_second", "MB/s of bodies", Kind.SHOWN)
LACKS: Final = Line("lacks", "times that log space was not ready", Kind.SHOWN, most=0)
CPU_MIB: Final = Line("cpu_us_mib", "CPU us a MiB of bodies", Kind.SHOWN)


def words(workload: str, body: int, outstanding: int, *more: str) -> list[str]:
    """Return the generator's words for one connection and one topic."""
    return [
        *(workload, "--topic", TOPIC, "--queues", str(QUEUES), "--body", str(body)),
        *("--outstanding", str(outstanding), *more),
    ]


def carried(measured: Measurement, body: int) -> Values:
    """Return what a load says by message and by byte."""
    return {
        "cpu_us": measured.cpu_us,
        "per_second": measured.per_second,
        "p99_us": measured.p99_us,
        "mb_per_second": measured.per_second * body / 1e6,
        "cpu_us_mib": measured.cpu_us * MIB / body,
    }


def loaded(server: Server, load: list[str], body: int) -> Values:
    """Measure a load, and how often the log had no space for it."""
    lacked = server.lacks()
    values = carried(server.measure(load), body)
    return values | {key: now - lacked[key] for key, now in server.lacks().items()}


class Topics(Axis):
    """One message to each queue of all topics in turn."""

    name = "topics"
    title = f"Topics of {QUEUES} queues, one message to each queue in turn, 1 x {WINDOW}"
    unit = "topics"
    sizes = (10, 100, 1_000, 4_000, 10_000)
    quick = (10, 100, 400)
    fresh = True
    lines = (
        Line("cpu_us", "CPU us a message", resolution=0.1, span_most=CPU_SPAN_MOST), RATE, P99,
        Line("checkpoints", "checkpoints while that was measured", Kind.SHOWN),
        Line("syncs_per_second", "syncs/s meanwhile", Kind.SHOWN),
        Line("make_us", "CPU us to make a topic", resolution=20),
        Line("first_us", "CPU us of a queue's first message", resolution=5),
        Line("memory_mb", "RssAnon, MB", Kind.TOTAL, 2,
             further="RssAnon, KB a further topic", scale=1000),
        Line("files", "open files", Kind.TOTAL, 4, further="open files, a further topic"),
        Line("start_s", "start, s", Kind.TOTAL, 0.02,
             further="start, us a further topic", scale=1e6),
    )  # fmt: skip

    def grow(self, server: Server, before: int, size: int) -> Iterator[Values]:
        """Make topics, send to each queue for the first time, and then for a while."""
        values: Values = {}
        made_us = server.cpu_us(
            lambda: server.make_topics((f"{TOPIC}{at}" for at in range(size)), QUEUES)
        )
        values["make_us"] = made_us / size
        server.warm()
        load = words("send", BODY_BYTES, WINDOW, "--topics", str(size))
        queues = size * QUEUES
        try:
            first = server.send(load, queues)
            values["first_us"] = first.cpu_us
            with Checkpoints(server.target.cluster.store) as written:
                measured = server.measure(load)
        except LoadFailed as error:
            held = queue_folders(server.target.cluster.store)
            yield values
            raise Refused(f"at {held:,} of {queues:,} queues: {_reason(error)}") from error
        values |= carried(measured, BODY_BYTES)
        values["checkpoints"] = written.count
        values["syncs_per_second"] = (measured.syncs or 0) / measured.seconds
        values |= {"memory_mb": server.memory_mb(), "files": server.open_files()}
        values["start_s"] = server.restart()
        yield values


class Resting(Axis):
    """Queues that have had messages, at rest; all rounds meet the same store."""

    name = "queues"
    title = f"Topics of {QUEUES} queues with messages, at rest"
    unit = "topics"
    sizes = (1_000, 10_000, 25_000)
    quick = (10, 100, 400)
    once = True
    lines = (
        Line("clean_s", "start after a clean stop, s", Kind.TOTAL, 0.05, most=START_S_MOST,
             further="start after a clean stop, us a further topic", scale=1e6),
        Line("clean_cpu_s", "CPU of it, with half a second more, s", Kind.TOTAL, 0.05,
             further="CPU us of it, a further topic", scale=1e6),
        Line("killed_s", "start after SIGKILL, s", Kind.TOTAL, 0.1,
             further="start after SIGKILL, us a further topic", scale=1e6),
        Line(*MEMORY, most=REST_MB_MOST, further="RssAnon, KB a further topic", scale=1000),
        Line(*REST, further="CPU us of a second at rest, a further topic", scale=1000),
        Line("files", "open files", Kind.TOTAL, 4, further="open files, a further topic"),
    )  # fmt: skip

    def grow(self, server: Server, before: int, size: int) -> Iterator[Values]:
        """Have more topics, then start, rest, send to each queue, kill, for each round."""
        names = (f"{TOPIC}{at}" for at in range(before, size))
        server.make_topics(names, QUEUES)
        load = words("send", BODY_BYTES, WINDOW, "--topics", str(size))
        server.send(load, size * QUEUES)  # the files are made before what is killed meets them
        for _ in range(server.bench.rounds):
            values: Values = {"clean_s": server.restart(), "clean_cpu_s": server.used_s()}
            values["resting_ms"] = server.resting_ms()
            values |= {"memory_mb": server.memory_mb(), "files": server.open_files()}
            server.send(load, size * QUEUES)
            yield values | {"killed_s": server.restart(killed=True)}


class Log(Axis):
    """Starts over a log of many files; all rounds meet the same one."""

    name = "log"
    title = "Log: starts over it, and 1 x 8 of 128 B behind it"
    unit = "MiB of log"
    sizes = (1_024, 4_096, 16_384)
    quick = (64, 128, 256)
    more = (32_768,)
    once = True
    lines = (
        Line("clean_s", "start after a clean stop, s", Kind.TOTAL, 0.05,
             further="start after a clean stop, us a further MiB", scale=1e6),
        Line("killed_s", "start after SIGKILL, s", Kind.TOTAL, 0.1,
             further="start after SIGKILL, us a further MiB", scale=1e6),
        P99, CPU, LACKS,
        Line("memory_mb", "RssAnon at rest, MB", Kind.TOTAL, 2,
             further="RssAnon, KB a further MiB", scale=1000),
    )  # fmt: skip

    def grow(self, server: Server, before: int, size: int) -> Iterator[Values]:
        """Store up to the size in batches, then start, kill, start and send, for each round."""
        if not before:
            server.make_topics(iter([TOPIC]), QUEUES)
        lacked = server.lacks()
        batch = words("batch", 1024, 8, "--batch", str(FILL_BATCH))
        for at in range(before, size, FILL_MIB):
            part = min(FILL_MIB, size - at) * MIB
            server.bench.note(f"log: {server.target.name} stores from {at:,} MiB to {size:,}")
            server.send(batch, max(1, part // (RECORD_BYTES * FILL_BATCH)))
        lacks = {key: now - lacked[key] for key, now in server.lacks().items()}
        for _ in range(server.bench.rounds):
            values: Values = {**lacks, "clean_s": server.restart()}
            values["memory_mb"] = server.memory_mb()
            values["killed_s"] = server.restart(killed=True)
            server.warm()
            load = words("send", BODY_BYTES, 8)
            measured = server.measure(load)
            yield values | {"p99_us": measured.p99_us, "cpu_us": measured.cpu_us}


class Batches(Axis):
    """SEND_BATCH of more and more messages."""

    name = "batches"
    title = "Messages of 1 KiB in a SEND_BATCH, 1 x 16"
    unit = "messages a batch"
    sizes = (1, 8, 32, 128)
    quick = (1, 8, 32)
    lines = (CPU, RATE, MEGABYTES, CPU_MIB, Line("p99_us", "p99 us", Kind.SHOWN), LACKS)

    def grow(self, server: Server, before: int, size: int) -> Iterator[Values]:
        """Send batches of the size."""
        if not before:
            server.make_topics(iter([TOPIC]), QUEUES)
            server.warm()
        load = words("batch", 1024, 16, "--batch", str(size))
        yield loaded(server, load, 1024)


class Bodies(Axis):
    """Sends of larger and larger bodies."""

    name = "bodies"
    title = "Bytes of a body, one connection, up to 64 or 8 MiB open"
    unit = "bytes a body"
    sizes = (16, 128, 1_024, 16_384, 262_144, 4_194_304)
    quick = (128, 1_024, 16_384)
    lines = (
        Line("cpu_us", "CPU us a message", Kind.TOTAL, 0.2,
             further="CPU us, a further MiB", scale=MIB),
        RATE, MEGABYTES, CPU_MIB, Line("p99_us", "p99 us", Kind.SHOWN), LACKS,
    )  # fmt: skip

    def grow(self, server: Server, before: int, size: int) -> Iterator[Values]:
        """Send bodies of the size."""
        if not before:
            server.make_topics(iter([TOPIC]), QUEUES)
            server.warm()
        load = words("send", size, max(1, min(WINDOW, OPEN_BYTES_MAX // size)))
        yield loaded(server, load, size)


def _reason(error: LoadFailed) -> str:
    """Return what the generator complained of, without its command."""
    return str(error).rsplit(": error: ", 1)[-1].strip()[-300:]


def queue_folders(store: Path) -> int:
    """Return how many queues have a file."""
    return len(list((store / "consumequeue").glob("*/*/0*")))
