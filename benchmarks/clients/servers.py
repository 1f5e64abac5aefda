"""The servers of a run: all are up at the same time, all but the one that is measured are paused.

A nameserver that was stopped for minutes would forget its broker when it goes on; these do not.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from support.interop.cluster import Cluster
from support.interop.processes import ServerFailed
from support.interop.raw_messages import create_topic, offset_of, wait_for_route
from support.interop.raw_remoting import RawClient

from benchmarks.targets.brokers import (
    AerobeeTarget,
    BrokerTarget,
    PlacedAerobee,
    PlacedRocketMQ,
    RocketMQTarget,
)
from benchmarks.targets.target import Cpus, Target

QUEUES: Final = 4
STORED_SECONDS_MAX: Final = 15.0  # RocketMQ acknowledges a message before it is in its queue
PATIENT: Final = {
    "scanNotActiveBrokerInterval": "3600000",
    "serverChannelMaxIdleTimeSeconds": "36000",
}
_REGISTER_OFTEN: Final = {
    "registerNameServerPeriod": "10000",
    "clientChannelMaxIdleTimeSeconds": "36000",
}
_MAX_OFFSET: Final = 30


class _PatientAerobee(PlacedAerobee):
    def namesrv_command(self, config: Path) -> list[str]:
        _append(config, PATIENT)
        return super().namesrv_command(config)


class _PatientRocketMQ(PlacedRocketMQ):
    start_seconds_max = 180.0  # of a JVM on a busy machine

    def namesrv_command(self, config: Path) -> list[str]:
        _append(config, PATIENT)
        return super().namesrv_command(config)


class PatientAerobee(AerobeeTarget):
    """Ours, whose nameserver waits for a broker that is paused."""

    placed = _PatientAerobee


class PatientRocketMQ(RocketMQTarget):
    """RocketMQ, whose nameserver waits for a broker that is paused."""

    placed = _PatientRocketMQ

    def make_cluster(self, settings: Mapping[str, str]) -> Cluster:
        """Let the broker come back soon, should the nameserver have forgotten it."""
        return super().make_cluster({**settings, **_REGISTER_OFTEN})


def make(kind: type[Target], directory: Path, cpus: Cpus) -> Target:
    """Return a server over an empty folder, not started."""
    if issubclass(kind, BrokerTarget):
        return kind(directory, cpus, sync_flush=False)
    return kind(directory, cpus)


def address(target: Target) -> str:
    """Return where clients go."""
    if isinstance(target, BrokerTarget):
        return target.cluster.namesrv
    return f"127.0.0.1:{target.port}"  # type: ignore[attr-defined]


def prepare(target: BrokerTarget, topic: str) -> None:
    """Make a topic, unless it is there."""
    try:
        create_topic(target.cluster.broker, topic, QUEUES)
        wait_for_route(target.cluster.namesrv, topic)
    except (AssertionError, OSError) as error:
        raise ServerFailed(f"{target.name} does not make {topic}: {error!r}") from error


def stored(target: BrokerTarget, topic: str) -> int:
    """Return how many messages a topic has had."""
    with RawClient(target.cluster.broker) as client:
        return sum(offset_of(client, _MAX_OFFSET, topic, queue) for queue in range(QUEUES))


def expect_stored(target: BrokerTarget, topic: str, least: int, most: int) -> None:
    """Return once a topic has as many as it should; ServerFailed where it never has."""
    until = time.monotonic() + STORED_SECONDS_MAX
    while not least <= (found := stored(target, topic)) <= most:
        if found > most or time.monotonic() > until:
            raise ServerFailed(f"{topic} holds {found} messages instead of {least}")
        time.sleep(0.05)


def _append(config: Path, keys: Mapping[str, str]) -> None:
    with config.open("a") as file:
        file.writelines(f"{key}={value}\n" for key, value in keys.items())
