"""Runs the real RocketMQ 5.5.0: a nameserver and a broker from Maven Central, on free ports.

From a command line (stops both on Ctrl-C):

    PYTHONPATH=tests python -m support.interop.rocketmq_server --store DIR
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from support.interop import toolchain
from support.interop.processes import Process, free_port
from support.interop.raw_remoting import serves_broker, serves_namesrv

VERSION: Final = "5.5.0"
START_SECONDS_MAX: Final = 60

_OPENED: Final = [  # what RocketMQ's own runbroker.sh opens to it on Java 9 and later
    "java.base/java.lang=ALL-UNNAMED",
    "java.base/java.io=ALL-UNNAMED",
    "java.base/java.nio=ALL-UNNAMED",
    "java.base/jdk.internal.misc=ALL-UNNAMED",
    "java.base/sun.nio.ch=ALL-UNNAMED",
]


class RocketMQ:
    """One nameserver and one broker over `store`, started by `start` and stopped by `stop`.

    `settings` are keys of broker.conf that win over the defaults here. The ports stay the same
    when the broker is started again.
    """

    name = "rocketmq"

    def __init__(
        self,
        directory: Path,
        *,
        store: Path | None = None,
        settings: Mapping[str, str] | None = None,
        namesrv: str | None = None,
        heap: str = "-Xms512m -Xmx1g",
    ) -> None:
        self.directory = directory
        self.store = store if store is not None else directory / "store"
        self._settings = dict(settings or {})
        self._heap = heap.split()
        self._own_namesrv = namesrv is None
        self.namesrv = namesrv or f"127.0.0.1:{free_port()}"
        self.broker = f"127.0.0.1:{free_port(also_below=2)}"
        self._ha_port = free_port()
        self.namesrv_process: Process | None = None
        self.broker_process: Process | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start what is not running and return once the nameserver lists the serving broker."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if self._own_namesrv and self.namesrv_process is None:
            self.namesrv_process = self._start_namesrv()
        if self.broker_process is None:
            try:
                self.broker_process = self._start_broker()
            except BaseException:
                self.kill()
                raise

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

    def _start_namesrv(self) -> Process:
        config = self.directory / "namesrv.conf"
        port = self.namesrv.rsplit(":", 1)[1]
        config.write_text(
            f"listenPort={port}\nkvConfigPath={self.directory}/kvConfig.json\n"
            f"configStorePath={self.directory}/namesrv.properties\n"
        )
        command = self._java("org.apache.rocketmq.namesrv.NamesrvStartup", config, ["-Xmx256m"])
        process = Process(command, self.directory / "namesrv.log")
        try:
            process.wait_until(
                lambda: serves_namesrv(self.namesrv), START_SECONDS_MAX, "RocketMQ nameserver"
            )
        except BaseException:
            process.kill()
            raise
        return process

    def _start_broker(self) -> Process:
        config = self.directory / "broker.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in self.settings().items()))
        heap = [*self._heap, "-XX:MaxDirectMemorySize=1g"]
        command = self._java("org.apache.rocketmq.broker.BrokerStartup", config, heap)
        process = Process(command, self.directory / "broker.log")
        try:
            process.wait_until(
                lambda: serves_broker(self.namesrv, self.broker),
                START_SECONDS_MAX,
                "RocketMQ broker",
            )
        except BaseException:
            process.kill()
            raise
        return process

    def settings(self) -> dict[str, str]:
        """Return the keys of broker.conf: RocketMQ's defaults but for size, ports and places."""
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
            "maxHashSlotNum": "20000",  # an index file of 1 MB instead of 420
            "maxIndexNum": "50000",
            "timerWheelEnable": "false",  # 38 MB that no peer here uses
            "diskMaxUsedSpaceRatio": "95",
        }
        return defaults | self._settings

    def _java(self, main: str, config: Path, options: list[str]) -> list[str]:
        opened = [word for package in _OPENED for word in ("--add-opens", package)]
        places = [f"-Duser.home={self.directory}", f"-Drocketmq.home.dir={self.directory}"]
        path = ["-cp", toolchain.classpath("server-5.5.0")]
        return [toolchain.tool("java"), *options, *opened, *places, *path, main, "-c", str(config)]


def main() -> None:
    """Run a nameserver and a broker until a signal comes."""
    parser = argparse.ArgumentParser(description=f"Run the real RocketMQ {VERSION}.")
    parser.add_argument("--store", type=Path, help="the broker's store (default: a temporary one)")
    parser.add_argument("--directory", type=Path, help="where configuration and logs go")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    settings = dict(pair.split("=", 1) for pair in options.set)
    with tempfile.TemporaryDirectory(prefix="rocketmq-") as temporary:
        directory = options.directory or Path(temporary)
        server = RocketMQ(directory, store=options.store, settings=settings)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            server.start()
            print(f"nameserver {server.namesrv} broker {server.broker} (store {server.store})")
            sys.stdout.flush()
            signal.pause()
        except (KeyboardInterrupt, SystemExit):
            server.stop()
        finally:
            server.kill()


if __name__ == "__main__":
    main()
