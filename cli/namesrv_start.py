"""`namesrv start`."""

from pathlib import Path

from aerobee.cli.program import importing
from aerobee.cli.servers import server_command
from aerobee.namesrv.settings import NamesrvSettings


def _serve(settings: NamesrvSettings, config_file: Path | None) -> int:
    """Run the nameserver until it is told to stop; loaded late, as `-p` and `--help` need none."""
    with importing():
        from aerobee.namesrv.__main__ import run

    return run(settings)


start = server_command(
    NamesrvSettings,
    _serve,
    help_text="Serve until SIGTERM or Ctrl-C; one line says when and where.\n\n"
    "Every key that -p prints is an option (listenPort is --listen-port), a line of the -c file "
    "and an environment variable (AEROBEE_LISTEN_PORT); options win, then the environment.",
    shown={
        "listenPort": "Port to serve on; 0 takes a free one.",
        "bindAddress": "Address to listen on.",
        "kvConfigPath": "File that keeps the KV table. [default: ~/namesrv/kvConfig.json]",
    },
    short={},
    shell_lines=(
        "namesrv start",
        "namesrv start -c conf/namesrv.conf --listen-port 19876",
    ),
)
