"""What the tests need of a server: one nameserver and one broker over a store, as processes."""

import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Final, Self

from support.interop.processes import Process, free_port
from support.interop.raw_remoting import serves_broker, serves_namesrv

SMALL_INDEX: Final = {"maxHashSlotNum": "20000", "maxIndexNum": "50000"}
"""Settings with which an index file has 1 MB instead of 420: stores of tests are small."""


class Cluster(ABC):
    """One nameserver and one broker over `store`, started by `start` and stopped by `stop`.

    `settings` are keys of broker.conf that win over the defaults here; those of `tls.server.` go
    to the nameserver, too, and `tls` is what both are asked with whether they serve. The ports stay
    the same when the broker is started again.
    """

    name: ClassVar[str]
    start_seconds_max = 120.0  # of a JVM on a busy machine

    def __init__(
        self,
        directory: Path,
        *,
        store: Path | None = None,
        settings: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.directory = directory
        self.store = store if store is not None else directory / "store"
        self._own_settings = dict(settings or {})
        self._tls = tls
        self.namesrv = f"127.0.0.1:{free_port()}"
        self.broker = f"127.0.0.1:{free_port(also_below=2)}"
        self._ha_port = free_port()
        self.namesrv_process: Process | None = None
        self.broker_process: Process | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @abstractmethod
    def namesrv_command(self, config: Path) -> list[str]:
        """Return the words that start a nameserver."""

    @abstractmethod
    def broker_command(self, config: Path) -> list[str]:
        """Return the words that start a broker."""

    def start(self) -> None:
        """Start what is not running and return once the nameserver lists the serving broker."""
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            if self.namesrv_process is None:
                self.namesrv_process = self._start_namesrv()
            if self.broker_process is None:
                self.broker_process = self._start_broker()
        except BaseException:
            self.kill()
            raise

    def beside(self, name: str) -> Self:
        """Return a further broker of the same nameserver, not started: see `start_broker`."""
        other = type(self)(
            self.directory / name, settings=self._own_settings | {"brokerName": name}
        )
        other.namesrv = self.namesrv
        return other

    def start_broker(self) -> None:
        """Start the broker alone; its nameserver runs."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.broker_process = self._start_broker()

    def stop(self) -> None:
        """Stop the broker cleanly, then the nameserver."""
        self.stop_broker()
        if self.namesrv_process is not None:
            self.namesrv_process.stop()
            self.namesrv_process = None

    def stop_broker(self) -> None:
        """Stop the broker by SIGTERM: its store is flushed and `abort` is gone."""
        if self.broker_process is not None:
            self.broker_process.stop()
            self.broker_process = None

    def kill_broker(self) -> None:
        """Kill the broker with SIGKILL."""
        if self.broker_process is not None:
            self.broker_process.kill()
            self.broker_process = None

    def kill(self) -> None:
        """Kill whatever runs."""
        self.kill_broker()
        if self.namesrv_process is not None:
            self.namesrv_process.kill()
            self.namesrv_process = None

    def settings(self) -> dict[str, str]:
        """Return the keys of broker.conf: the usual defaults but for size, ports and places."""
        host, port = self.broker.rsplit(":", 1)
        defaults = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerId": "0",
            "brokerIP1": host,
            "brokerIP2": host,
            "listenPort": port,
            "haListenPort": str(self._ha_port),
            "namesrvAddr": self.namesrv,
            "storePathRootDir": str(self.store),
            "storePathCommitLog": str(self.store / "commitlog"),
            "mappedFileSizeCommitLog": str(64 * 1024 * 1024),
            "diskMaxUsedSpaceRatio": "95",
        }
        return defaults | self._own_settings

    def _start_namesrv(self) -> Process:
        port = self.namesrv.rsplit(":", 1)[1]
        keys = {
            "listenPort": port,
            "kvConfigPath": str(self.directory / "kvConfig.json"),
            "configStorePath": str(self.directory / "namesrv.properties"),
        }
        keys |= {k: v for k, v in self._own_settings.items() if k.startswith("tls.server.")}
        config = self._write("namesrv.conf", keys)
        return self._launch(
            self.namesrv_command(config), "namesrv", lambda: serves_namesrv(self.namesrv, self._tls)
        )

    def _start_broker(self) -> Process:
        config = self._write("broker.conf", self.settings())
        return self._launch(
            self.broker_command(config),
            "broker",
            lambda: serves_broker(self.namesrv, self.broker, self._tls),
        )

    def _launch(self, command: list[str], role: str, serves: Callable[[], bool]) -> Process:
        process = Process(command, self.directory / f"{role}.log")
        try:
            process.wait_until(serves, self.start_seconds_max, f"{self.name} {role}")
        except BaseException:
            process.kill()
            raise
        return process

    def _write(self, name: str, keys: Mapping[str, str]) -> Path:
        config = self.directory / name
        config.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        return config
