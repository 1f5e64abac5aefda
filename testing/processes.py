"""Nameserver and brokers as child processes, for tests that kill them or measure them."""

import asyncio
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from aerobee.client.cluster.directory import Cluster
from aerobee.remoting.config.java_properties import format_java_properties
from aerobee.remoting.errors import Unavailable
from aerobee.testing.names import SEGMENT_BYTES, broker_name

START_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.005
_SERVES: Final = re.compile(r"serves on (\S+:\d+)")


class ServerProcess:
    """One server as a child process; what it prints is kept beside its settings file."""

    def __init__(self, module: str, folder: Path, keys: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.keys = dict(keys)
        self.address = ""
        self.output_file = folder / "output"
        self._module = module
        self._config_file = folder / "server.conf"
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id; raises Unavailable if it does not run."""
        if self._child is None:
            raise Unavailable(f"{self._module} is not started")
        return self._child.pid

    def start(self) -> None:
        """Start the process and wait until it serves; a later start takes the same port.

        Raises Unavailable with what the process printed if it ends first, or after 30 s.
        """
        self._config_file.write_text(format_java_properties(self.keys))
        command = [sys.executable, "-m", self._module, "-c", str(self._config_file)]
        with self.output_file.open("wb") as output:
            self._child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (serves := _SERVES.search(self.output_file.read_text(errors="replace"))):
            if self._child.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise Unavailable(f"{self._module} does not serve: {self.output_file.read_text()}")
            time.sleep(_POLL_S)
        self.address = serves[1]
        self.keys["listenPort"] = self.address.rpartition(":")[2]

    def stop(self) -> int:
        """Ask it to stop (SIGTERM) and return its exit code; kill it if that takes over 30 s."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """Kill it (SIGKILL): nothing more of it runs when this returns."""
        return self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        child, self._child = self._child, None
        if child is None:
            return 0
        child.send_signal(number)
        try:
            return child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            return child.wait()


class ClusterProcesses:
    """A nameserver and brokers as child processes, from `start` to `stop` or for a `with` block.

    `broker_keys` are RocketMQ keys for every broker. With `root` the stores are kept there;
    without, they are temporary.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        root: Path | None = None,
        broker_keys: Mapping[str, str] | None = None,
    ) -> None:
        self._broker_count = brokers
        self._broker_keys = dict(broker_keys or {})
        self.root = root or Path(tempfile.mkdtemp(prefix="aerobee-"))
        if root is None:  # gone at the latest with the cluster, also if that is never started
            weakref.finalize(self, shutil.rmtree, self.root, ignore_errors=True)
        self._temporary = root is None
        self.namesrv = ServerProcess(
            "aerobee.namesrv",
            self.root / "namesrv",
            {
                "bindAddress": "127.0.0.1",
                "listenPort": "0",
                "kvConfigPath": str(self.root / "namesrv" / "kvConfig.json"),
            },
        )
        self.brokers: list[ServerProcess] = []

    def __repr__(self) -> str:
        """Show where it is reached: <ClusterProcesses at 127.0.0.1:40001, 2 brokers>."""
        count = len(self.brokers)
        brokers = f"{count} broker{'' if count == 1 else 's'}"
        where = f"at {self.namesrv_addr}, {brokers}" if self.namesrv_addr else "not started"
        return f"<{type(self).__name__} {where}>"

    @property
    def namesrv_addr(self) -> str:
        """The nameserver as clients take it: `host:port`."""
        return self.namesrv.address

    @property
    def broker_addrs(self) -> list[str]:
        """The `host:port` of every broker."""
        return [broker.address for broker in self.brokers]

    def store_path(self, index: int = 0) -> Path:
        """Return the folder of one broker's store."""
        return self.root / broker_name(index)

    def start(self) -> None:
        """Start the nameserver, then the brokers; all serve and are registered on return."""
        try:
            self.namesrv.start()
            for index in range(self._broker_count):
                broker = ServerProcess(
                    "aerobee.broker", self.root / f"run-{index}", self._keys_of(index)
                )
                self.brokers.append(broker)
                broker.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the brokers cleanly, then the nameserver; remove a temporary store."""
        for server in (*self.brokers, self.namesrv):
            server.stop()
        if self._temporary:
            shutil.rmtree(self.root, ignore_errors=True)

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """Make a topic on every broker; clients find it when this returns."""

        async def create() -> None:
            async with Cluster(self.namesrv_addr) as cluster:
                await cluster.create_topic(topic, queues)

        asyncio.run(create())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _keys_of(self, index: int) -> dict[str, str]:
        keys = {
            "brokerName": broker_name(index),
            "brokerIP1": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": "0",
            "httpPort": "off",
            "namesrvAddr": self.namesrv_addr,
            "storePathRootDir": str(self.store_path(index)),
            "mappedFileSizeCommitLog": str(SEGMENT_BYTES),
        }
        return keys | self._broker_keys
