"""Runs one broker process until SIGTERM or SIGINT."""

import sys
from pathlib import Path

from aerobee.remoting.extras import exit_without

if __name__ == "__main__":
    exit_without("broker", "python -m aerobee.broker")

from aerobee.broker.app import Broker
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.remoting.net import process
from aerobee.remoting.net.logs.server_log import Logs


def run(settings: BrokerSettings, config_file: Path | None = None) -> int:
    """Serve until told to stop; return the exit code.

    Settings that are changed while the broker runs are written to `config_file`.
    """
    from aerobee.broker.start.heap import keep_freed_memory
    from aerobee.broker.start.time_slices import ask_for_short_slices

    logs = Logs(settings)
    keep_freed_memory()
    ask_for_short_slices()
    broker = Broker(settings, config_file)
    broker.live.on_change(logs.apply)
    try:
        process.run(
            process.serve(
                broker,
                lambda: (
                    f"broker {settings.broker_name} serves on {settings.broker_ip1}:{broker.port} "
                    f"(store {settings.store_path_root_dir})"
                ),
            )
        )
    finally:
        logs.close()
    return 0


def main() -> int:
    """`python -m aerobee.broker [-c FILE] [-n HOST:PORT]`; `broker start` has every option."""
    import argparse  # which `broker start` does without

    parser = argparse.ArgumentParser(prog="python -m aerobee.broker", description=__doc__)
    parser.add_argument("-c", "--config-file", type=Path, help="properties file, RocketMQ's keys")
    parser.add_argument("-n", "--namesrv-addr", help="nameservers, host:port;host:port")
    given = parser.parse_args()
    options = {"namesrvAddr": given.namesrv_addr} if given.namesrv_addr else {}
    file = given.config_file
    return process.load_and_run(BrokerSettings, file, options, lambda loaded: run(loaded, file))


if __name__ == "__main__":
    sys.exit(main())
