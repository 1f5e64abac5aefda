"""`broker start`."""

from pathlib import Path

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.cli.program import importing
from aerobee.cli.servers import server_command


def _serve(settings: BrokerSettings, config_file: Path | None) -> int:
    """Run the broker until it is told to stop; loaded late, since `-p` and `--help` need none."""
    with importing():
        from aerobee.broker.__main__ import run

    return run(settings, config_file)


start = server_command(
    BrokerSettings,
    _serve,
    help_text="Serve until SIGTERM or Ctrl-C; one line says when and where.\n\n"
    "Every key that -p prints is an option (brokerIP1 is --broker-ip1), a line of the -c file and "
    "an environment variable (AEROBEE_BROKER_IP1); options win, then the environment.",
    shown={
        "namesrvAddr": "Nameservers, host:port joined by a semicolon.",
        "brokerName": "Name of this broker in its cluster.",
        "brokerClusterName": "Name of the cluster.",
        "brokerIP1": "Address that clients are told to dial.",
        "listenPort": "Port to serve on; 0 takes a free one.",
        "storePathRootDir": "Folder of the store. [default: ~/store]",
        "flushDiskType": "ASYNC_FLUSH or SYNC_FLUSH: whether a send waits for the disk.",
        "autoCreateTopicEnable": "Whether a first send may create its topic.",
        "httpPort": "Port of /healthz, /metrics and /api, or off. [default: listenPort + 2]",
    },
    short={"namesrvAddr": "n"},
    shell_lines=(
        "broker start -n 127.0.0.1:9876",
        "broker start -c conf/broker.conf -n 10.0.0.1:9876 --listen-port 20911",
        "broker start --store-path-root-dir /data/store --flush-disk-type SYNC_FLUSH",
        "AEROBEE_BROKER_NAME=broker-b broker start",
    ),
)
