"""The options that all commands over a cluster have, and what they are handed for them."""

import asyncio
import functools
import re
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from aerobee.admin.client import AdminClient
from aerobee.cli.credentials import credentials_options, read_credentials
from aerobee.cli.operate.output import FORMATS, Format
from aerobee.cli.program import EXIT_CTRL_C, Failure, WrongSettings, ctrl_c_ends
from aerobee.cli.tls_options import tls_options
from aerobee.client.errors import BrokerRefused, InvalidMessage, InvalidUse
from aerobee.client.settings import ClientSettings
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.net.access.credentials import SessionCredentials
from aerobee.remoting.net.addresses import BadAddress
from aerobee.remoting.net.tls import TlsClientSettings

EXIT_NOT_ALLOWED: Final = 6
"""A broker refused for want of a signature, or of a right."""


_OF_ACCESS: Final = re.compile(r"request type 30(0\d|10) ")


class NotAllowed(Failure):
    """Whoever asks may not."""

    exit_code = EXIT_NOT_ALLOWED


class ClusterDoor(NamedTuple):
    """Which cluster is asked, how, and in what form the answer is wanted (None: as fits)."""

    namesrv: str
    settings: ClientSettings
    output: Format | None

    def admin(self) -> AdminClient:
        """Make a client of the cluster."""
        return AdminClient(self.namesrv, settings=self.settings)

    def other(self, namesrv: str | None, credentials: Path | None = None) -> "ClusterDoor":
        """Return the door of another cluster, asked in the same way, or by who a file says.

        Without a name it is this one. Raises InvalidUse for a file that has no credentials.
        """
        if namesrv is None:
            if credentials is not None:
                raise InvalidUse("--to-credentials goes with --to-namesrv")
            return self
        settings = self.settings
        if credentials is not None:
            found = read_credentials(credentials)
            if found is None:
                raise InvalidUse(f"{credentials} does not have both accessKey and secretKey")
            settings = replace(settings, credentials=found)
        return ClusterDoor(namesrv, settings, self.output)


def asks_cluster(
    command: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., None]:
    """Add -n, -o, --timeout, TLS and credentials to a command, and run it on an event loop."""

    @tls_options
    @credentials_options
    @click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(0.1, 3600),
        default=5.0,
        show_default=True,
        help="Seconds that one question to a server may take; whole tables get 10, lag 15.",
    )
    @click.option(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        help="How to print. [default: table on a terminal, text in a pipe]",
    )
    @click.option(
        "-n",
        "--namesrv-addr",
        "namesrv",
        default="127.0.0.1:9876",
        show_default=True,
        envvar=["AEROBEE_NAMESRV_ADDR", "NAMESRV_ADDR"],
        help="Nameservers, host:port joined by a semicolon.",
    )
    @functools.wraps(command)
    def asking(
        *,
        namesrv: str,
        timeout_s: float,
        output: Format | None,
        tls: TlsClientSettings | None,
        credentials: SessionCredentials | None,
        **others: Any,
    ) -> None:
        settings = ClientSettings(
            tls=tls, credentials=credentials, api_timeout_ms=int(timeout_s * 1000)
        )
        door = ClusterDoor(namesrv, settings, output)
        try:
            asyncio.run(command(door, **others))
        except (InvalidUse, InvalidMessage, BadAddress) as error:
            raise WrongSettings(str(error)) from None
        except BrokerRefused as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise Failure(f"{error}{_not_served(error)}") from None
            if error.code != ResponseCode.NO_PERMISSION:
                raise
            raise NotAllowed(f"{error}\n{_who_asked(credentials)}") from None
        except KeyboardInterrupt:
            raise SystemExit(EXIT_CTRL_C) from None

    return asking


def _who_asked(credentials: SessionCredentials | None) -> str:
    if credentials is not None:
        name = credentials.access_key
        return f"this was asked as {name}; `aerobee acl describe {name}` shows what he may do"
    return (
        "nobody signed this: --access-key USER, --credentials FILE (tools.yml), or"
        " AEROBEE_ACCESS_KEY and AEROBEE_SECRET_KEY say who asks"
    )


def _not_served(error: BrokerRefused) -> str:
    if _OF_ACCESS.search(str(error)) is None:
        return ""
    return (
        "\nthis broker keeps no users: authenticationEnabled=true in its settings lets it, or"
        " authenticationMetadataProvider before anybody is asked who he is"
    )


def confirm(question: str, yes: bool) -> None:
    """Ask whether to go on, unless that was said; ends with code 2 where nobody says yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise WrongSettings(f"{question} Say --yes: there is no terminal to ask on.")
    try:
        with ctrl_c_ends():
            said = click.confirm(question, err=True)
    except click.Abort:  # the end of what is typed
        click.echo(err=True)
        said = False
    if not said:
        raise WrongSettings("nothing was done: nobody said yes")


yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
broker_option = click.option("-b", "--broker", help="This broker alone.")
cluster_option = click.option("-c", "--cluster", help="The brokers of this cluster alone.")


async def watch(every_s: float | None, once: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do something once, or again and again until Ctrl-C, on a terminal in the same place."""
    while True:
        if every_s is not None and sys.stdout.isatty():
            click.clear()
        await once()
        if every_s is None:
            return
        sys.stdout.flush()
        await asyncio.sleep(every_s)
