"""Runs one nameserver process until SIGTERM or SIGINT."""

import sys
from pathlib import Path
from typing import Final

from aerobee.remoting.extras import exit_without

if __name__ == "__main__":
    exit_without("broker", "python -m aerobee.namesrv")

from aerobee.namesrv.app import NameServer
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.net import process
from aerobee.remoting.net.addresses import format_address
from aerobee.remoting.net.logs.server_log import Logs
from aerobee.remoting.net.server import raise_open_files_limit

SPARE_FILES: Final = 64  # descriptors beside those of the connections
_ANYWHERE: Final = frozenset({"", "0.0.0.0", "::"})


def run(settings: NamesrvSettings) -> int:
    """Serve until told to stop; return the exit code."""
    logs = Logs(settings)
    raise_open_files_limit(settings.connections_max + SPARE_FILES)
    server = NameServer(settings)
    host = "127.0.0.1" if settings.bind_address in _ANYWHERE else settings.bind_address
    try:
        process.run(
            process.serve(server, lambda: f"namesrv serves on {format_address(host, server.port)}")
        )
    finally:
        logs.close()
    return 0


def main() -> int:
    """`python -m aerobee.namesrv [-c FILE]`; `namesrv start` has every option."""
    import argparse  # which `namesrv start` does without

    parser = argparse.ArgumentParser(prog="python -m aerobee.namesrv", description=__doc__)
    parser.add_argument("-c", "--config-file", type=Path, help="properties file, RocketMQ's keys")
    parser.add_argument("-p", "--listen-port", help="port to serve on, 0 takes a free one")
    given = parser.parse_args()
    options = {"listenPort": given.listen_port} if given.listen_port else {}
    return process.load_and_run(NamesrvSettings, given.config_file, options, run)


if __name__ == "__main__":
    sys.exit(main())
