"""Kafka as one KRaft server, loaded by its own Java clients."""

import base64
import socket
import subprocess
import uuid
from pathlib import Path
from typing import Final

from support.interop.processes import ServerFailed, free_port

from benchmarks.generator import run_marked
from benchmarks.loads import KAFKA, Load, Variant
from benchmarks.targets import compiling
from benchmarks.targets.brokers import FLUSH_INTERVAL_MS
from benchmarks.targets.target import ChildTarget

# as its own start scripts have it; a JVM with one CPU would choose another collector.
_JVM: Final = (
    *("-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    *("-XX:MaxInlineLevel=15", "-Djava.awt.headless=true"),
)
_FILLED_MESSAGES: Final = 524_288
_UNBOUND: Final = 4096  # messages that its producer may have open where it batches by itself
_FORMAT_SECONDS_MAX: Final = 60


class KafkaTarget(ChildTarget):
    """Kafka from Maven Central as it comes, its log flushed as often as everybody's.

    Where a load bounds what is open, its producer waits for nothing (`linger.ms=0`); beside
    batches it batches as by default. Its consumer reads as it comes.
    """

    name = KAFKA
    warms_up = True
    port = 0

    def version(self) -> str:
        """What pom.xml pins."""
        return f"{compiling.kafka_version()} (KRaft, 1 GiB heap, G1)"

    def start(self) -> None:
        """Make its folder and start it on free ports."""
        self.port, controller = free_port(), free_port()
        config = self.directory / "server.properties"
        config.write_text(_properties(self.port, controller, self.directory / "logs"))
        self._format(config)
        self.launch(
            [*self._java(*_JVM), "kafka.Kafka", str(config)],
            self._answers,
        )

    def command(self, load: Load, variant: Variant) -> list[str]:
        """Its own clients on the generator's CPU."""
        words = ["--port", str(self.port), "--body", str(load.body_bytes)]
        if load.workload == "pull":
            return self._client("consume", *words, "--connections", str(load.connections))
        batches = load.workload == "batch"
        outstanding = _UNBOUND if batches else load.outstanding
        words += ["--connections", str(load.connections), "--outstanding", str(outstanding)]
        return self._client("publish", *words, "--linger", "5" if batches else "0")

    def prepare(self, load: Load, variant: Variant) -> None:
        """Store what is to be consumed."""
        if not load.stores:
            words = ("--port", str(self.port), "--body", str(load.body_bytes))
            filled = self._client("fill", *words, "--messages", str(_FILLED_MESSAGES))
            run_marked(filled, self.sample)

    def _client(self, *words: str) -> list[str]:
        return [*self.cpus.for_generator(), *self._java("-Xmx2g"), "KafkaLoad", *words]

    def _java(self, *options: str) -> list[str]:
        path, classes = compiling.kafka_classes()
        return ["java", *options, "-cp", f"{path}:{classes}"]

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def _format(self, config: Path) -> None:
        identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        made = subprocess.run(
            [
                *self._java(), "kafka.tools.StorageTool", "format", "--standalone",
                *(f"--cluster-id={identity}", "-c", str(config)),
            ],
            capture_output=True, text=True, timeout=_FORMAT_SECONDS_MAX, check=False,
        )  # fmt: skip
        if made.returncode:
            raise ServerFailed(f"Kafka's folder cannot be made: {made.stdout}{made.stderr}")


def _properties(port: int, controller: int, logs: Path) -> str:
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(logs),
        "log.flush.interval.ms": str(FLUSH_INTERVAL_MS),
        "log.flush.scheduler.interval.ms": str(FLUSH_INTERVAL_MS),
        "broker.session.timeout.ms": "600000",  # it is paused while others are measured
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())
