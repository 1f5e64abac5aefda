"""What a command of mqadmin is: its letters, and what it does with what was given."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from aerobee.admin.client import AdminClient
from aerobee.client.cluster.directory import BrokerEntry
from aerobee.client.errors import InvalidUse

Run = Callable[[AdminClient, Namespace], Coroutine[Any, Any, None]]


class Letter(NamedTuple):
    """An option: `-t`, its long name, and whether it has to be there."""

    letter: str
    name: str
    required: bool = False
    is_flag: bool = False


class AdminCommand(NamedTuple):
    """One command; of the options `either`, one at least has to be there."""

    run: Run
    letters: tuple[Letter, ...]
    either: tuple[str, ...] = ()


def parse(name: str, command: AdminCommand, words: list[str]) -> Namespace:
    """Read a command's options; ends the process with code 2 where they are wrong."""
    parser = ArgumentParser(prog=f"mqadmin {name}", allow_abbrev=False)
    parser.add_argument("-n", "--namesrvAddr", help="nameservers, host:port joined by a semicolon")
    for letter, long_name, required, is_flag in command.letters:
        names = [f"-{letter}", f"--{long_name}"]
        if is_flag:
            parser.add_argument(*names, action="store_true", dest=long_name)
        else:
            parser.add_argument(*names, required=required, dest=long_name)
    given = parser.parse_args(words)
    if command.either and not any(getattr(given, each) for each in command.either):
        parser.error("one of " + ", ".join(f"--{each}" for each in command.either) + " is needed")
    return given


async def chosen(admin: AdminClient, given: Namespace) -> list[BrokerEntry]:
    """Return the broker at the address of `-b`, else the masters of the cluster of `-c`."""
    if given.brokerAddr:
        known = [entry for entry in await admin.brokers() if entry.address == given.brokerAddr]
        if not known:
            raise InvalidUse(f"no broker is registered at {given.brokerAddr}")
        return known[:1]
    return await admin.masters_of(given.clusterName)


def is_true(text: str | None, default: bool = False) -> bool:
    """Read a boolean as Java does."""
    return default if text is None else text.strip().lower() == "true"


CLUSTER = Letter("c", "clusterName")
BROKER = Letter("b", "brokerAddr")
EITHER = ("brokerAddr", "clusterName")
