"""`aerobee health`: whether the server of this machine, or container, lives; for probes."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from http.client import OK, HTTPConnection, HTTPException
from os import environ
from typing import Final, NamedTuple

import click

from aerobee.cli.program import Failure, examples
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import system_error
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.net.addresses import format_address, parse_address

LOOPBACK: Final = "127.0.0.1"
ANYWHERE: Final = frozenset({"", "0.0.0.0", "::"})
HTTP_STEP: Final = 2  # from the port of a broker to its HTTP's
BROKER_PORT: Final = 10911
NAMESRV_PORT: Final = 9876
BODY_BYTES_MAX: Final = 4096


class Place(NamedTuple):
    """Where a server may listen, and how it is asked there."""

    host: str
    port: int
    speaks_http: bool


@click.command(
    epilog=examples(
        "aerobee health",
        "aerobee health --ready",
        "aerobee health --http 127.0.0.1:10913",
        "aerobee health --remoting 127.0.0.1:9876",
    )
)
@click.option("--ready", is_flag=True, help="Ask a broker whether it takes and finds messages.")
@click.option("--http", metavar="HOST:PORT", help="Ask the HTTP of a broker that listens here.")
@click.option("--remoting", metavar="HOST:PORT", help="Ask whatever server listens here.")
@click.option(
    "--timeout", default=3.0, show_default=True, type=click.FloatRange(0.1, 60), metavar="SECONDS"
)
def health(ready: bool, http: str | None, remoting: str | None, timeout: float) -> None:
    """Ask the server that runs here whether it lives; exit code 1: it does not, or there is none.

    A broker lives while its loop turns, and answers at its HTTP port; a nameserver, when it answers
    to anything. Without an address both are looked for at their ports, which AEROBEE_LISTEN_PORT,
    AEROBEE_HTTP_PORT and AEROBEE_HTTP_HOST move as they do the servers'.
    """
    given = (
        *([Place(*parse_address(http), True)] if http else ()),
        *([Place(*parse_address(remoting), False)] if remoting else ()),
    )
    refused = []
    for place in given or usual_places(environ):
        try:
            said = _ask(place, "/readyz" if ready else "/healthz", timeout)
        except ConnectionRefusedError:  # nobody listens: it may be the other server
            refused.append(format_address(place.host, place.port))
            continue
        except (OSError, HTTPException) as error:
            text = system_error(error) if isinstance(error, OSError) else repr(error)
            raise Failure(f"{format_address(place.host, place.port)}: {text}") from None
        click.echo(said)
        return
    raise Failure(f"nobody listens at {' or '.join(refused)}")


def usual_places(settings: Mapping[str, str]) -> Iterator[Place]:
    """Yield where the servers of this environment listen: a broker's HTTP, then any server."""
    listen = settings.get("AEROBEE_LISTEN_PORT", "")
    http_port = settings.get("AEROBEE_HTTP_PORT", "")
    http_host = settings.get("AEROBEE_HTTP_HOST", "")
    port = int(listen) if listen.isdecimal() else 0
    if http_port.isdecimal() or not http_port:
        host = LOOPBACK if http_host in ANYWHERE else http_host
        yield Place(host, int(http_port or (port or BROKER_PORT) + HTTP_STEP), True)
    for each in (port,) if port else (NAMESRV_PORT, BROKER_PORT):
        yield Place(LOOPBACK, each, False)


def _ask(place: Place, path: str, timeout_s: float) -> str:
    """Return what a server says that lives; raises Failure with what it says else."""
    if not place.speaks_http:
        return _ask_remoting(place, timeout_s)
    with closing(HTTPConnection(place.host, place.port, timeout=timeout_s)) as asking:
        asking.request("GET", path)
        reply = asking.getresponse()
        text = reply.read(BODY_BYTES_MAX).decode("utf-8", "replace").strip()
    if reply.status != OK:
        raise Failure(text or f"status {reply.status}")
    return text


def _ask_remoting(place: Place, timeout_s: float) -> str:
    """Send a request whose answer matters not: who refuses, or hangs up for want of TLS, lives."""
    with socket.create_connection((place.host, place.port), timeout=timeout_s) as asking:
        asking.sendall(encode_frame(Command(code=RequestCode.GET_BROKER_CLUSTER_INFO)))
        with suppress(ConnectionResetError):
            asking.recv(1)
    return "ok"
