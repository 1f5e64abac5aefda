"""One broker whose size grows, and all that can be asked of it: CPU, memory, files, starts."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.generator import LoadFailed, Measurement, run_marked
from benchmarks.growth.watching import counted, scraped
from benchmarks.growth.wire import Wire
from benchmarks.loads import FEW_LAST, Bar, Load
from benchmarks.reports.memory import WarmMemory
from benchmarks.reports.rounds import WARM_WINDOW, WARM_WINDOWS_MAX, Note, is_flat
from benchmarks.targets import processes
from benchmarks.targets.brokers import (
    WAIT_MS,
    AerobeeTarget,
    BrokerTarget,
    RocketMQTarget,
    common_settings,
    topic_fields,
)
from benchmarks.targets.target import Cpus, Timing

BODY_BYTES: Final = 128  # wherever bodies are not the axis: the broker is measured, not its disk
WARMUP_S: Final = 0.3  # before each load that is measured
SETTLE_S: Final = 0.5  # after a first answer, until a start is over
WINDOW: Final = 64  # requests on their way at once
WARM: Final = Load("warm", "", "send", (), Bar(), outstanding=WINDOW, body_bytes=BODY_BYTES)
_MAKE_TOPIC, _MAKE_TOPICS = 17, 18


@dataclass(frozen=True, slots=True)
class Bench:
    """Where and how long is measured."""

    cpus: Cpus
    directory: Path
    rounds: int
    seconds: float  # of each load
    rest_s: float  # of each look at a broker that rests
    warm_bytes: int  # given up while a load is measured
    note: Note


class Server:
    """A running broker; a restart takes its connections along."""

    def __init__(self, bench: Bench, target: BrokerTarget) -> None:
        self.bench = bench
        self.target = target
        self._wire: Wire | None = None

    @property
    def wire(self) -> Wire:
        """Connections of our own to it, none at first."""
        if self._wire is None:
            self._wire = Wire(self.target.cluster.broker)
        return self._wire

    def hang_up(self) -> None:
        """Close them."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def cpu_us(self, work: Callable[[], object]) -> float:
        """Return the CPU time that the broker took meanwhile."""
        before = processes.cpu_seconds(self.target.pids())
        work()
        return (processes.cpu_seconds(self.target.pids()) - before) * 1e6

    def used_s(self) -> float:
        """Return the CPU time that the broker has taken since its start."""
        return processes.cpu_seconds(self.target.pids())

    def resting_ms(self) -> float:
        """Return the CPU time in a second in which nobody asks anything."""
        seconds = self.bench.rest_s
        return self.cpu_us(lambda: time.sleep(seconds)) / 1000 / seconds

    def memory_mb(self) -> float:
        """Return the memory without mapped files."""
        return processes.anonymous_bytes(self.target.pids()) / 1e6

    def lacks(self) -> Mapping[str, float]:
        """Return by `lacks` how often log space was not ready in time so far, as ours tells it."""
        if not isinstance(self.target, AerobeeTarget):
            return {}
        metrics = scraped(self.target.http_port)
        return {"lacks": counted(metrics, "aerobee_log_space_lacks_total")}

    def open_files(self) -> int:
        """Return how many file numbers it has."""
        return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in self.target.pids())

    def restart(self, *, killed: bool = False) -> float:
        """Stop or kill the broker and start it again; return the seconds to its first answer."""
        self.hang_up()
        if killed:
            self.target.cluster.kill_broker()
        else:
            self.target.cluster.stop_broker()
        self.target.cluster.start()
        seconds = self.target.start_seconds()
        time.sleep(SETTLE_S)
        return seconds

    def pipeline(self, frames: Iterator[bytes]) -> int:
        """Send all over one connection, a window at a time; return how many that were."""
        wire = self.wire
        if not len(wire):
            wire.open(1)
        window: list[bytes] = []
        count = 0
        for each in frames:
            window.append(each)
            count += 1
            if len(window) == WINDOW:
                wire.send(0, *window)
                wire.take(len(window))
                window = []
        wire.send(0, *window)
        wire.take(len(window))
        return count

    def make_topics(self, names: Iterator[str], queues: int) -> int:
        """Make topics of so many queues; return how many requests that took.

        RocketMQ writes all topics down for each request: it gets them in one.
        """
        if not isinstance(self.target, RocketMQTarget):
            return self.pipeline(
                self.wire.frame(_MAKE_TOPIC, topic_fields(name, queues)) for name in names
            )
        made = [
            {"topicName": name, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}
            for name in names
        ]
        body = json.dumps({"topicConfigList": made}).encode()
        return self.pipeline(iter([self.wire.frame(_MAKE_TOPICS, {}, body)]))

    def measure(self, words: list[str]) -> Measurement:
        """Let the generator run for a while; LoadFailed where a reply is wrong."""
        timing = Timing(WARMUP_S, self.bench.seconds)
        command = self.target.generator(self.target.port, words)
        with WarmMemory(self.bench.warm_bytes).flowing():
            return run_marked([*command, *timing.words()], self.target.sample)

    def send(self, words: list[str], requests: int) -> Measurement:
        """Let the generator make so many requests and no more; LoadFailed as above."""
        command = self.target.generator(self.target.port, words)
        times = ["--requests", str(requests), "--warmup", "0", "--seconds", "170"]
        return run_marked([*command, *times], self.target.sample)

    def warm(self) -> None:
        """Have a JVM carry sends until its CPU per message is flat; others are as they are."""
        if not self.target.warms_up:
            return
        self.target.prepare(WARM, FEW_LAST)
        cpu_us: list[float] = []
        while len(cpu_us) < WARM_WINDOWS_MAX and not is_flat(cpu_us):
            self.bench.note(f"{self.target.name} warms up, {cpu_us[-1] if cpu_us else 0:.1f} us")
            cpu_us.append(self.target.measure(WARM, FEW_LAST, WARM_WINDOW).cpu_us)


@contextmanager
def serving(
    bench: Bench, kind: type[BrokerTarget], settings: Mapping[str, str]
) -> Iterator[Server]:
    """Start a broker over an empty store, with keys of broker.conf of the axis; delete it after."""
    with TemporaryDirectory(dir=bench.directory, ignore_cleanup_errors=True) as folder:
        target = kind(Path(folder) / "server", bench.cpus, sync_flush=False)
        patient = {"waitTimeMillsInSendQueue": str(WAIT_MS)}  # a cold JVM refuses otherwise
        common = common_settings(sync_flush=False) | patient
        target.cluster = target.make_cluster(common | dict(settings))
        server = Server(bench, target)
        try:
            target.start()
            time.sleep(SETTLE_S)
            yield server
        finally:
            server.hang_up()
            target.stop()


class Refused(LoadFailed):
    """The broker takes no more of what the axis counts; the text says how much it had by then."""
