"""Runs our nameserver and broker as a user would: two processes from the console scripts."""

import sys
from pathlib import Path
from typing import Final

from support.interop.cluster import SMALL_INDEX, Cluster

SCRIPTS: Final = Path(sys.executable).parent


class Aerobee(Cluster):
    """Our nameserver and broker, configured by RocketMQ's own files."""

    name = "aerobee"
    scripts = SCRIPTS  # where `namesrv` and `broker` are

    def settings(self) -> dict[str, str]:
        """Leave the HTTP port out, for it would need a free one as well; index files are small.

        They are of RocketMQ's size here, since stores change hands. And a busy machine is no reason
        to refuse what the tests send.
        """
        own = {"httpPort": "off", "brokerFastFailureEnable": "false"}
        return own | SMALL_INDEX | super().settings()

    def namesrv_command(self, config: Path) -> list[str]:
        """Start `namesrv start -c FILE`."""
        return [str(self.scripts / "namesrv"), "start", "-c", str(config)]

    def broker_command(self, config: Path) -> list[str]:
        """Start `broker start -c FILE`."""
        return [str(self.scripts / "broker"), "start", "-c", str(config)]
