"""What a group that reads a GiB behind notices of `logCacheBytes`, and what the producer does.

    PYTHONPATH=tests python -m benchmarks.late_readers [--behind 1] [--cache MIB,MIB,...]
        [--outstanding 64] [--connections 1] [--seconds 10] [--rounds 3]

With each value of the key in turns a broker is started anew and takes as much as the reader is to
be behind, and half a GiB. Then a producer sends messages of 1 KiB: alone, beside a reader whose
group has a member, and beside one that nobody has heard of. The reader pulls 32 at a time, so far
behind the queues' ends; where it is slower than the producer it leaves messages out.

Exits with 1 where a reader suffers by the default: where more of what it pulls comes from the disk
than its first looks; or where, in three rounds or more, beside what it has in the same round of a
broker that keeps all (0), it gets less than four fifths of the messages, waits more than twice as
long for a pull (p99), or makes the producer's messages a quarter dearer: by the rounds' median.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from support.interop.cluster import Cluster
from support.interop.raw_remoting import RawClient

from aerobee.broker.settings.keys import BrokerSettings
from benchmarks.cold_backlog import RECORD_BYTES
from benchmarks.generator import Measurement, run_marked
from benchmarks.loads import Bar, Load, Variant
from benchmarks.targets import compiling
from benchmarks.targets.brokers import AerobeeTarget
from benchmarks.targets.target import Cpus, Timing

QUEUES: Final = 4
HEARTBEAT_S: Final = 10.0
READERS: Final = ("alone", "member", "stranger")
ROUNDS_LEAST: Final = 3  # for ratios, which one busy moment spoils
KEEPS_ALL: Final = 0  # a value: nothing is given up
DISK_MIB_MOST: Final = 32.0  # of a turn: queues' first pages, which are older than all others
READ_LEAST: Final = 0.8  # of what a reader gets of a broker that keeps all
WAIT_MOST: Final = 2.0  # times as long for a pull
CPU_MOST: Final = 1.25  # times as much for a message that is sent meanwhile
_PULL_MESSAGE: Final = 11
_HEART_BEAT: Final = 34
_SUBSCRIPTION: Final = 4  # the pull brings its own


class CachedTarget(AerobeeTarget):
    """A broker whose key has a value."""

    cache_bytes: ClassVar[int]

    @classmethod
    def of(cls, cache_bytes: int) -> "type[CachedTarget]":
        """Return the target of a value."""
        return type(cls.__name__, (cls,), {"cache_bytes": cache_bytes})

    def make_cluster(self, settings: Mapping[str, str]) -> Cluster:
        """Add the key."""
        return super().make_cluster({**settings, "logCacheBytes": str(self.cache_bytes)})


@dataclass(frozen=True, slots=True)
class Turn:
    """What the producer got, and the reader: messages a second, of a pull the p99 in ms."""

    sent: Measurement
    disk_mib: float  # read by the broker
    read_per_second: float
    pull_p99_ms: float


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print a line for each value and reader, medians; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.late_readers", description=__doc__)
    parser.add_argument("--behind", type=float, default=1.0, help="GiB (1)")
    parser.add_argument("--cache", default="1536,256,0", help="MiB, 0: all (1536,256,0)")
    parser.add_argument("--outstanding", type=int, default=64)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, help="where the stores are while they are measured")
    parser.add_argument("--reader", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.reader:
        return _read(*options.reader)
    cpus = Cpus.apart()
    load = Load(
        "send", "send", "send", (), Bar(), options.connections, outstanding=options.outstanding
    )
    found: dict[tuple[int, str], list[Turn]] = {}
    caches = [int(word) for word in options.cache.split(",")]
    for _ in range(options.rounds):
        for cache_mib in caches:
            with tempfile.TemporaryDirectory(prefix="late-", dir=options.dir) as folder:
                kind = CachedTarget.of(cache_mib << 20)
                target = kind(Path(folder) / "target", cpus, sync_flush=False)
                for reader, turn in _measure(target, load, options):
                    found.setdefault((cache_mib, reader), []).append(turn)
                    print(_line(cache_mib, reader, [turn]), flush=True)
    print("medians")
    for (cache_mib, reader), turns in sorted(found.items()):
        print(_line(cache_mib, reader, turns))
    default_mib = BrokerSettings.load(None, {})[0].log_cache_bytes >> 20
    problems = missed(found, default_mib)
    print("\n".join(f"missed: {each}" for each in problems) or "all bars are met")
    return 1 if problems else 0


def missed(found: Mapping[tuple[int, str], Sequence[Turn]], default_mib: int) -> list[str]:
    """Return how readers suffer by the default; a turn of each round by cache in MiB and reader."""
    problems = []
    for reader in READERS:
        turns = found.get((default_mib, reader), ())
        others = found.get((KEEPS_ALL, reader), ())
        if not turns:
            problems.append(f"{reader}: the default, {default_mib} MiB, was not measured")
            continue
        disk_mib = statistics.median(turn.disk_mib for turn in turns)
        if disk_mib > DISK_MIB_MOST:
            problems.append(
                f"{reader}: {disk_mib:.0f} MiB from the disk, at most {DISK_MIB_MOST:.0f}"
            )
        pairs = list(zip(turns, others, strict=False))
        if reader == "alone" or len(pairs) < ROUNDS_LEAST:
            continue
        read = statistics.median(a.read_per_second / b.read_per_second for a, b in pairs)
        wait = statistics.median(a.pull_p99_ms / b.pull_p99_ms for a, b in pairs)
        cpu = statistics.median(a.sent.cpu_us / b.sent.cpu_us for a, b in pairs)
        if read < READ_LEAST:
            problems.append(f"{reader}: {read:.2f}x what it gets where all is kept")
        if wait > WAIT_MOST:
            problems.append(f"{reader}: pulls take {wait:.1f}x as long as where all is kept")
        if cpu > CPU_MOST:
            problems.append(f"{reader}: a message sent meanwhile takes {cpu:.2f}x the CPU")
    return problems


def _measure(
    target: CachedTarget, load: Load, options: argparse.Namespace
) -> Iterator[tuple[str, Turn]]:
    variant = Variant(1, QUEUES, tags_first=False)
    behind = int(options.behind * (1 << 30) / RECORD_BYTES / QUEUES)
    try:
        target.start()
        target.prepare(load, variant)
        count = QUEUES * behind + (1 << 29) // RECORD_BYTES
        words = [*load.words(variant), "--requests", str(count), "--warmup", "0"]
        run_marked([*target.generator(target.port, words), "--seconds", "170"], target.sample)
        topic = variant.topic_names()[0]
        for reader in READERS:
            before = _disk_bytes(target)
            with _reader(target, topic, behind, reader) as report:
                sent = target.measure(load, variant, Timing(1.0, options.seconds))
            disk_mib = (_disk_bytes(target) - before) / (1 << 20)
            yield reader, Turn(sent, disk_mib, *(report or (0.0, 0.0)))
    finally:
        target.stop()


def _disk_bytes(target: CachedTarget) -> int:
    """Return how much the broker has had read from the disk so far."""
    lines = Path(f"/proc/{target.pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["read_bytes"])


@contextmanager
def _reader(target: CachedTarget, topic: str, behind: int, reader: str) -> Iterator[list[float]]:
    """Let somebody read meanwhile; afterwards the list says how many a second, and p99 in ms."""
    report: list[float] = []
    if reader == "alone":
        yield report
        return
    command = ["nice", "-n", "19", "taskset", "-c", str(target.cpus.generator), sys.executable,
               "-m", "benchmarks.late_readers", "--reader", target.cluster.broker, topic,
               str(behind), reader]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()  # it has its first messages
            yield report
        finally:
            child.send_signal(signal.SIGTERM)
            report += [float(word) for word in child.communicate(timeout=30)[0].split()]


def _read(address: str, topic: str, behind: str, group: str) -> int:
    """Read so many messages behind the ends until told to stop; print how quickly."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    offsets, ends = [0] * QUEUES, [0] * QUEUES
    read, times, heard_s, began_s = 0, [], -HEARTBEAT_S, time.monotonic()
    with RawClient(address) as client:
        while not stopped:
            for queue in range(QUEUES):
                now_s = time.monotonic()
                if group == "member" and now_s - heard_s >= HEARTBEAT_S:
                    client.call(_HEART_BEAT, body=_heartbeat(group, topic))
                    heard_s = now_s
                if ends[queue] and offsets[queue] < ends[queue] - int(behind) * 1.02:
                    offsets[queue] = ends[queue] - int(behind)
                if ends[queue] and offsets[queue] > ends[queue] - int(behind):
                    time.sleep(0.001)
                began = time.perf_counter()
                answer = client.call(_PULL_MESSAGE, _pull(topic, group, queue, offsets[queue]))
                if answer.code != 0:
                    print(f"{group}: {answer.code} {answer.remark}", file=sys.stderr)
                    return 1
                first = not ends[queue]
                ends[queue] = int(answer.ext["maxOffset"])
                if first:
                    continue
                times.append(time.perf_counter() - began)
                if not read:
                    print("begun", flush=True)
                read += int(answer.ext["nextBeginOffset"]) - offsets[queue]
                offsets[queue] = int(answer.ext["nextBeginOffset"])
    print(read / (time.monotonic() - began_s), sorted(times)[len(times) * 99 // 100] * 1000)
    return 0


def _pull(topic: str, group: str, queue: int, offset: int) -> dict[str, str]:
    return {
        "consumerGroup": group, "topic": topic, "queueId": str(queue),
        "queueOffset": str(offset), "maxMsgNums": "32", "sysFlag": str(_SUBSCRIPTION),
        "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
    }  # fmt: skip


def _heartbeat(group: str, topic: str) -> bytes:
    subscription = {
        "topic": topic, "subString": "*", "tagsSet": [], "codeSet": [], "subVersion": 0,
        "classFilterMode": False, "expressionType": "TAG",
    }  # fmt: skip
    consumer = {
        "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "unitMode": False,
        "subscriptionDataSet": [subscription],
    }  # fmt: skip
    client = f"late@{os.getpid()}"
    return json.dumps(
        {"clientID": client, "producerDataSet": [], "consumerDataSet": [consumer]}
    ).encode()


def _line(cache_mib: int, reader: str, turns: Sequence[Turn]) -> str:
    def middle(values: Iterator[float]) -> float:
        return statistics.median(values)

    return (
        f"cache {cache_mib or 'all':>5} MiB, reader {reader:8}"
        f" | sent {middle(t.sent.per_second for t in turns):9,.0f}/s"
        f" {middle(t.sent.cpu_us for t in turns):5.2f} us"
        f" p50 {middle(t.sent.p50_us for t in turns):7,.0f}"
        f" p99 {middle(t.sent.p99_us for t in turns):8,.0f} us"
        f" | read {middle(t.read_per_second for t in turns):8,.0f}/s"
        f" pull p99 {middle(t.pull_p99_ms for t in turns):7.1f} ms"
        f" | {middle(t.disk_mib for t in turns):7.1f} MiB from the disk"
    )


if __name__ == "__main__":
    compiling.load_generator()
    compiling.sync_counter()
    sys.exit(main())
