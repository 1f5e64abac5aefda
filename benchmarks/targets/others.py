"""Redis Streams and NATS JetStream, and the floor: a server that stores nothing."""

import re
import subprocess
from functools import cache
from typing import Final

from support.interop.processes import free_port

from benchmarks.loads import NATS, REDIS, Load, Variant
from benchmarks.targets import compiling
from benchmarks.targets.target import ChildTarget

_SERVES: Final = re.compile(r"^serves on (\d+)$", re.MULTILINE)


class RedisTarget(ChildTarget):
    """Debian's redis-server, its append-only file synced every second, written by XADD.

    An entry carries the body alone, without keys and tags. Rewrites of the append-only file and
    snapshots are off: they would only slow it down.
    """

    name = REDIS
    port = 0

    def version(self) -> str:
        """What the server says."""
        return _redis_version()

    def start(self) -> None:
        """Start it on a free port."""
        self.port = free_port()
        self.launch(
            [
                _redis_server(),
                *("--port", str(self.port), "--bind", "127.0.0.1"),
                *("--dir", str(self.directory), "--save", ""),
                *("--appendonly", "yes", "--appendfsync", "everysec"),
                *("--auto-aof-rewrite-percentage", "0"),
            ],
            lambda: "Ready to accept connections" in self.log(),
        )

    def command(self, load: Load, variant: Variant) -> list[str]:
        """Our generator, which speaks Redis's protocol for this."""
        words = ["xadd", *load.words(variant)[1:]]
        return self.generator(self.port, words)


class NatsTarget(ChildTarget):
    """NATS JetStream with file storage, published to by its own client.

    Its files are synced when it sees fit (every two minutes). Go calls the kernel directly, so
    that its syncs cannot be counted.
    """

    name = NATS
    port = 0

    def version(self) -> str:
        """What go.mod pins."""
        text = (compiling.BENCHMARKS / "nats" / "go.mod").read_text()
        found = re.search(r"nats-server/v2 v(\S+)", text)
        return found[1] if found else "?"

    def start(self) -> None:
        """Start it on a port of its own choice."""
        self.syncs = None
        program = str(compiling.nats_program())
        streams = str(self.directory / "streams")
        self.launch(
            [program, "serve", "--dir", streams], lambda: _SERVES.search(self.log()) is not None
        )
        self.port = port_in(self.log())

    def command(self, load: Load, variant: Variant) -> list[str]:
        """Its Go client on the generator's CPU."""
        return [
            *self.cpus.for_generator(),
            *(str(compiling.nats_program()), "publish", "--port", str(self.port)),
            *("--connections", str(load.connections), "--outstanding", str(load.outstanding)),
            *("--body", str(load.body_bytes)),
        ]


class FloorTarget(ChildTarget):
    """A C server that answers and stores nothing: what it reaches is the generator's own limit."""

    name = "floor"
    port = 0

    def version(self) -> str:
        """It has none."""
        return "answers only"

    def start(self) -> None:
        """Start it on a free port."""
        self.syncs = None
        binary = str(compiling.load_generator())
        self.launch(
            [binary, "floor", "--batch", "32"], lambda: _SERVES.search(self.log()) is not None
        )
        self.port = port_in(self.log())

    def command(self, load: Load, variant: Variant) -> list[str]:
        """The generator as against a broker."""
        return self.generator(self.port, load.words(variant))


def port_in(log: str) -> int:
    """Return the port that a server says it serves on."""
    found = _SERVES.search(log)
    if found is None:
        raise RuntimeError(f"no port in {log!r}")
    return int(found[1])


def _redis_server() -> str:
    return compiling.tool("redis-server", "apt-get install redis-server to compare with Redis")


@cache
def _redis_version() -> str:
    text = subprocess.run(
        [_redis_server(), "--version"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"v=(\S+)", text)
    return found[1] if found else "?"
