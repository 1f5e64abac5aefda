"""The console scripts: each says what to install where the packages of commands are not there."""

import sys
from typing import Final

from aerobee.remoting.extras import exit_without, missing

_MORE: Final = {
    "broker": "broker",
    "console": "console",
    "demo": "broker",
    "export": "export",
    "namesrv": "broker",
    "store": "broker",
}
"""Commands of `aerobee` that need more than `cli`: who asks for one is told of all at once."""


def aerobee() -> None:
    """`aerobee`: every command."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    if word in _MORE and (word != "broker" or "start" in sys.argv[2:3]):  # its others ask a cluster
        exit_without(_MORE[word], f"aerobee {word}")
    if word == "--version" and missing("cli"):
        from aerobee.remoting.config.built import build

        print(f"aerobee {build()}")
        return
    exit_without("cli", "aerobee")
    from aerobee.cli.main import main

    main(prog_name="aerobee")  # `python -m aerobee` is the same


def broker() -> None:
    """`broker start`, as RocketMQ's users know it."""
    exit_without("broker", "broker")
    from aerobee.cli.main import broker

    broker()


def namesrv() -> None:
    """`namesrv start`, as RocketMQ's users know it."""
    exit_without("broker", "namesrv")
    from aerobee.cli.main import namesrv

    namesrv()
