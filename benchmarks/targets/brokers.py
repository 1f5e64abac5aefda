"""Aerobee and RocketMQ: each a nameserver and a broker, told the same by the same file."""

import importlib.metadata
import json
import threading
import time
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from support.interop import rocketmq_server
from support.interop.aerobee_server import SCRIPTS, Aerobee
from support.interop.cluster import Cluster
from support.interop.processes import ServerFailed, free_port
from support.interop.raw_remoting import RawClient

from aerobee.broker.compiled.choice import description
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.remoting.command import Command
from aerobee.remoting.net.access.credentials import SessionCredentials
from benchmarks.generator import LoadFailed, Measurement, run_marked
from benchmarks.loads import Load, Variant
from benchmarks.targets import compiling, processes
from benchmarks.targets.target import Cpus, Target, Timing

FLUSH_INTERVAL_MS: Final = 500
SEGMENT_BYTES: Final = 1 << 30  # what both have by default
WAIT_MS: Final = 10_000  # a JVM that warms up under full load would refuse after the usual 200
FILLED_MESSAGES: Final = 131_072  # that pulls read, again and again
# runbroker.sh's collector and flags with a smaller heap; a JVM with one CPU would choose another.
HEAP: Final = "2g"
JVM: Final = (
    "-server -XX:+UseG1GC -XX:G1HeapRegionSize=16m -XX:G1ReservePercent=25 "
    "-XX:InitiatingHeapOccupancyPercent=30 -XX:SoftRefLRUPolicyMSPerMB=0"
)
_UPDATE_AND_CREATE_TOPIC: Final = 17
_GET_BROKER_RUNTIME_INFO: Final = 28
_SERVES_SECONDS_MAX: Final = 60.0


class StartClock:
    """Measures from the moment before a server's process begins to its first answer."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._began = time.perf_counter()
        self._seconds: float | None = None
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def seconds(self) -> float:
        """Return how long it took."""
        self._thread.join(_SERVES_SECONDS_MAX)
        if self._seconds is None:
            raise TimeoutError(f"{self._address} answers nothing")
        return self._seconds

    def _watch(self) -> None:
        while time.perf_counter() - self._began < _SERVES_SECONDS_MAX:
            try:
                with RawClient(self._address, 2.0) as client:
                    client.call(_GET_BROKER_RUNTIME_INFO)
            except (OSError, ValueError):
                time.sleep(0.002)
                continue
            self._seconds = time.perf_counter() - self._began
            return


class Placing:
    """Puts a cluster's servers on their CPU, counts the broker's syncs and times its start."""

    def __init__(self, cpus: Cpus, environment: list[str]) -> None:
        self._cpus = cpus
        self._environment = environment
        self.clock: StartClock | None = None

    def namesrv(self, command: list[str]) -> list[str]:
        """Return the nameserver's command, beside the broker."""
        return self._cpus.pinned(command)

    def broker(self, command: list[str], address: str) -> list[str]:
        """Return the broker's command; the clock runs from here."""
        self.clock = StartClock(address)
        return self._cpus.pinned(["env", *self._environment, *command])


class PlacedAerobee(Aerobee):
    """Our servers, placed."""

    placing: Placing

    def namesrv_command(self, config: Path) -> list[str]:
        """Start it where it belongs."""
        return self.placing.namesrv(super().namesrv_command(config))

    def broker_command(self, config: Path) -> list[str]:
        """Start it where it belongs."""
        return self.placing.broker(super().broker_command(config), self.broker)


class PlacedRocketMQ(rocketmq_server.RocketMQ):
    """RocketMQ's servers, placed."""

    placing: Placing

    def namesrv_command(self, config: Path) -> list[str]:
        """Start it where it belongs."""
        return self.placing.namesrv(super().namesrv_command(config))

    def broker_command(self, config: Path) -> list[str]:
        """Start it where it belongs."""
        return self.placing.broker(super().broker_command(config), self.broker)


class BrokerTarget(Target):
    """A broker that our load generator speaks to; the cluster's processes do the rest."""

    def __init__(
        self, directory: Path, cpus: Cpus, *, sync_flush: bool, wait_ms: int = WAIT_MS
    ) -> None:
        super().__init__(directory, cpus)
        assert self.syncs is not None
        self.placing = Placing(cpus, self.syncs.environment())
        settings = common_settings(sync_flush=sync_flush)
        settings |= {"waitTimeMillsInSendQueue": str(wait_ms), "brokerFastFailureEnable": "true"}
        self.cluster = self.make_cluster(settings)

    @abstractmethod
    def make_cluster(self, settings: Mapping[str, str]) -> Cluster:
        """Return the servers, not started; `settings` are keys of broker.conf."""

    @property
    def pid(self) -> int:
        """The broker; what its nameserver uses is not counted."""
        assert self.cluster.broker_process is not None
        return self.cluster.broker_process.pid

    @property
    def port(self) -> int:
        """Where the broker listens."""
        return int(self.cluster.broker.rsplit(":", 1)[1])

    def start(self) -> None:
        """Start nameserver and broker."""
        self.cluster.start()

    def pause(self) -> None:
        """Stop the broker and its nameserver where they are."""
        processes.pause([*self.pids(), self._namesrv_pid()])

    def resume(self) -> None:
        """Let both go on."""
        processes.resume([*self.pids(), self._namesrv_pid()])

    def _namesrv_pid(self) -> int:
        assert self.cluster.namesrv_process is not None
        return self.cluster.namesrv_process.pid

    def start_seconds(self) -> float:
        """Return how long the broker took from its start to its first answer."""
        assert self.placing.clock is not None
        return self.placing.clock.seconds()

    def stop(self) -> None:
        """Kill both; whatever they wrote is about to be deleted.

        Helper processes end by themselves when their broker is gone, unless they are paused.
        """
        if self.cluster.broker_process is not None and self.cluster.broker_process.running:
            self.resume()
        self.cluster.kill()

    def signed(self, fields: dict[str, str]) -> dict[str, str]:
        """Return the fields of a request as its user sends them; nobody signs here."""
        return fields

    def command(self, load: Load, variant: Variant) -> list[str]:
        """Our generator against the broker's port."""
        return self.generator(self.port, load.words(variant))

    def measure(self, load: Load, variant: Variant, timing: Timing) -> Measurement:
        """Run the load once; ServerFailed, with the log, where the broker has ended."""
        try:
            return super().measure(load, variant, timing)
        except LoadFailed:
            if self.cluster.broker_process is not None:
                self.cluster.broker_process.expect_running(self.name)
            raise

    def prepare(self, load: Load, variant: Variant) -> None:
        """Make the topics, and for pulls the messages."""
        with RawClient(self.cluster.broker) as client:
            for topic in variant.topic_names():
                fields = self.signed(topic_fields(topic, variant.queues))
                answer = client.call(_UPDATE_AND_CREATE_TOPIC, fields)
                if answer.code:
                    raise ServerFailed(f"{self.name} does not make {topic}: {answer.remark}")
        if load.stores:
            return
        fill = Load("fill", "fill", "send", (), load.bar, 4, 64, load.body_bytes)
        words = [*fill.words(variant), "--requests", str(FILLED_MESSAGES)]
        times = ["--warmup", "0", "--seconds", "120"]
        run_marked([*self.generator(self.port, words), *times], self.sample)


class AerobeeTarget(BrokerTarget):
    """This project, as a user starts it, with metrics and everything else on."""

    name = "Aerobee"
    scripts = SCRIPTS  # of which checkout
    own_settings: ClassVar[Mapping[str, str]] = {}
    http_port = 0  # until there is a cluster
    placed: ClassVar[type[PlacedAerobee]] = PlacedAerobee

    def make_cluster(self, settings: Mapping[str, str]) -> Cluster:
        """Our two console scripts."""
        self.http_port = free_port()
        settings = {**settings, **self.own_settings, "httpPort": str(self.http_port)}
        cluster = self.placed(self.directory / "cluster", settings=settings)
        cluster.placing, cluster.scripts = self.placing, self.scripts
        return cluster

    def version(self) -> str:
        """Ours and what the hot path is made of."""
        parts = (f"{name} {importlib.metadata.version(name)}" for name in ("uvloop", "msgspec"))
        wanted = BrokerSettings.load(None, {})[0].compiled_fast_path
        sends = f"fast path by {description(wanted=wanted)}"
        return f"{importlib.metadata.version('aerobee')} ({', '.join(parts)}, {sends})"


class AerobeeWithoutIndexTarget(AerobeeTarget):
    """This project without its index of keys."""

    name = "Aerobee, no key index"
    own_settings = {"messageIndexEnable": "false"}  # noqa: RUF012


class AerobeeSignedTarget(AerobeeTarget):
    """This project with access control on; its clients sign."""

    name = "Aerobee, signed"
    user = SessionCredentials("bench", "a secret of the benchmark")
    own_settings = {  # noqa: RUF012
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": json.dumps(
            {"username": user.access_key, "password": user.secret_key}
        ),
    }

    def signed(self, fields: dict[str, str]) -> dict[str, str]:
        """Sign a request without a body."""
        return self.user.sign(Command(0, fields)).ext

    def generator(self, port: int, words: list[str]) -> list[str]:
        """Have it sign, too."""
        user = ["--access-key", self.user.access_key, "--secret-key", self.user.secret_key]
        return super().generator(port, [*words, *user])


class BesideTarget(AerobeeTarget):
    """Another checkout of this project that is set up, such as that before a change."""

    name = "beside"

    @classmethod
    def of(cls, checkout: Path) -> type[AerobeeTarget]:
        """Return the target of a checkout."""
        return type(cls.__name__, (cls,), {"scripts": checkout / ".venv" / "bin"})

    def version(self) -> str:
        """Return where it is; what it is made of is its own affair."""
        return f"Aerobee by {self.scripts}"


class RocketMQTarget(BrokerTarget):
    """RocketMQ from Maven Central as it comes, which includes its index of keys."""

    name = "RocketMQ"
    warms_up = True
    own_settings: ClassVar[Mapping[str, str]] = {}
    placed: ClassVar[type[PlacedRocketMQ]] = PlacedRocketMQ
    heap: ClassVar[str] = HEAP

    @classmethod
    def of(cls, heap: str) -> "type[RocketMQTarget]":
        """Return the target with another heap, as -Xmx has it."""
        return type(cls.__name__, (cls,), {"heap": heap})

    def make_cluster(self, settings: Mapping[str, str]) -> Cluster:
        """Its two startup classes."""
        compiling.tool("java", "install a JDK 17 or later to compare with RocketMQ")
        compiling.tool("mvn", "install Maven, which downloads RocketMQ")
        settings = {**settings, **self.own_settings}
        jvm = f"-Xms{self.heap} -Xmx{self.heap} {JVM}"
        cluster = self.placed(self.directory / "cluster", settings=settings, jvm=jvm)
        cluster.placing = self.placing
        return cluster

    def version(self) -> str:
        """The pinned one."""
        return f"{rocketmq_server.VERSION} (heap of {self.heap}, G1)"


class RocketMQWithoutIndexTarget(RocketMQTarget):
    """RocketMQ without its index of keys."""

    name = "RocketMQ, no key index"
    own_settings = {"messageIndexEnable": "false"}  # noqa: RUF012


def common_settings(*, sync_flush: bool) -> dict[str, str]:
    """Return the keys of broker.conf that both brokers are given."""
    return {
        "flushDiskType": "SYNC_FLUSH" if sync_flush else "ASYNC_FLUSH",
        "flushCommitLogTimed": "true",
        "flushIntervalCommitLog": str(FLUSH_INTERVAL_MS),
        "mappedFileSizeCommitLog": str(SEGMENT_BYTES),
        "maxHashSlotNum": "5000000",  # as both have them by themselves: those of tests are small
        "maxIndexNum": "20000000",
    }


def topic_fields(topic: str, queues: int) -> dict[str, str]:
    """Return the fields of a request that makes a topic."""
    return {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
