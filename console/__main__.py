"""Runs one console process until SIGTERM or SIGINT."""

import sys
from pathlib import Path

from aerobee.remoting.extras import exit_without

if __name__ == "__main__":
    exit_without("console", "python -m aerobee.console")

from aerobee.console.serving import ConsoleServer
from aerobee.console.settings import ConsoleSettings
from aerobee.remoting.net import process
from aerobee.remoting.net.logs.server_log import Logs


def run(settings: ConsoleSettings) -> int:
    """Serve until told to stop; return the exit code."""
    logs = Logs(settings)
    server = ConsoleServer(settings)
    try:
        process.run(process.serve(server, lambda: f"console serves on {server.url}"))
    finally:
        logs.close()
    return 0


def main() -> int:
    """`python -m aerobee.console [-c FILE]`; `aerobee console` has every option."""
    import argparse  # which `aerobee console` does without

    parser = argparse.ArgumentParser(prog="python -m aerobee.console", description=__doc__)
    parser.add_argument("-c", "--config-file", type=Path, help="properties file")
    given = parser.parse_args()
    return process.load_and_run(ConsoleSettings, given.config_file, {}, run)


if __name__ == "__main__":
    sys.exit(main())
