"""Runs the real RocketMQ 5.5.0: a nameserver and a broker from Maven Central, on free ports.

From a command line (stops both on Ctrl-C):

    PYTHONPATH=tests python -m support.interop.rocketmq_server --store DIR --set KEY=VALUE
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from support.interop import toolchain
from support.interop.cluster import SMALL_INDEX, Cluster

VERSION: Final = "5.5.0"
FULL_SPEED: Final = "-Xms512m -Xmx1g"
PATIENT: Final = {"brokerFastFailureEnable": "false", "osPageCacheBusyTimeOutMills": "60000"}
"""Settings with which a busy machine is no reason to refuse what the tests send."""
QUICK_START: Final = "-Xms256m -Xmx1g -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"

_OPENED: Final = [  # what RocketMQ's own runbroker.sh opens to it on Java 9 and later
    "java.base/java.lang=ALL-UNNAMED",
    "java.base/java.io=ALL-UNNAMED",
    "java.base/java.nio=ALL-UNNAMED",
    "java.base/jdk.internal.misc=ALL-UNNAMED",
    "java.base/sun.nio.ch=ALL-UNNAMED",
]


class RocketMQ(Cluster):
    """RocketMQ's own nameserver and broker.

    `jvm` are the broker's options: QUICK_START for tests, FULL_SPEED for whatever measures it.
    """

    name = "rocketmq"

    def __init__(
        self,
        directory: Path,
        *,
        store: Path | None = None,
        settings: Mapping[str, str] | None = None,
        jvm: str = QUICK_START,
    ) -> None:
        super().__init__(directory, store=store, settings=settings)
        self._jvm = jvm.split()

    def settings(self) -> dict[str, str]:
        """Add what keeps a small store small, and the broker patient, to the common keys.

        Whoever measures it has it as it comes.
        """
        patient = PATIENT if self._jvm == QUICK_START.split() else {}
        return SMALL_INDEX | patient | super().settings()

    def namesrv_command(self, config: Path) -> list[str]:
        """Start NamesrvStartup."""
        options = ["-Xmx256m", *self._jvm[2:]]  # all but the broker's heap
        return self._java("org.apache.rocketmq.namesrv.NamesrvStartup", config, options)

    def broker_command(self, config: Path) -> list[str]:
        """Start BrokerStartup."""
        options = [*self._jvm, "-XX:MaxDirectMemorySize=1g"]
        return self._java("org.apache.rocketmq.broker.BrokerStartup", config, options)

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
    parser.add_argument("--jvm", default=FULL_SPEED, help="options of the broker's JVM")
    options = parser.parse_args()
    settings = dict(pair.split("=", 1) for pair in options.set)
    with tempfile.TemporaryDirectory(prefix="rocketmq-") as temporary:
        directory = options.directory or Path(temporary)
        server = RocketMQ(directory, store=options.store, settings=settings, jvm=options.jvm)
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
