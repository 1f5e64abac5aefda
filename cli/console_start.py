"""`aerobee console`."""

from pathlib import Path

from aerobee.cli.program import importing
from aerobee.cli.servers import server_command
from aerobee.console.settings import ConsoleSettings


def _serve(settings: ConsoleSettings, config_file: Path | None) -> int:
    """Run the console until it is told to stop; loaded late, as `-p` and `--help` need none."""
    with importing():
        from aerobee.console.__main__ import run

    return run(settings)


start = server_command(
    ConsoleSettings,
    _serve,
    help_text="Serve pages over a cluster until SIGTERM or Ctrl-C; one line says where.\n\n"
    "It listens on this machine alone and lets in whoever comes from it, unless it is told"
    " otherwise. Users of the cluster's access control log in with their own secrets; admin has the"
    " consolePassword. Every key that -p prints is an option (consolePort is --console-port), a"
    " line of the -c file and an environment variable (AEROBEE_CONSOLE_PORT); options win.",
    shown={
        "namesrvAddr": "Nameservers, host:port joined by a semicolon.",
        "consoleHost": "Address to listen on.",
        "consolePort": "Port to serve on; 0 takes a free one.",
        "consolePasswordFile": "File with the password of the user admin.",
        "consoleCredentialsFile": 'File with {"accessKey":"...","secretKey":"..."}: as whom the '
        "console looks for all its viewers.",
        "consoleRoleMax": "What nobody may exceed: reader, operator or admin.",
        "consoleBehindTls": "A proxy before it encrypts.",
        "consoleTlsCertPath": "Certificate, PEM: serve https.",
        "consoleTlsKeyPath": "Its key.",
    },
    short={"namesrvAddr": "n"},
    shell_lines=(
        "aerobee console -n 127.0.0.1:9876",
        "aerobee console --console-host 0.0.0.0 --console-password-file /run/secrets/console",
    ),
)
