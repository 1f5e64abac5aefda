"""Nameserver addresses: as a user gives them, or told by an HTTP server where they move."""

import logging
import os
import re
from collections.abc import Sequence
from typing import Final

from aerobee.client.errors import InvalidUse, wrong_argument
from aerobee.remoting.errors import AerobeeError, Unavailable
from aerobee.remoting.extras import need
from aerobee.remoting.net.addresses import BadAddress, format_address, parse_address
from aerobee.remoting.net.single_flight import SingleFlight

log = logging.getLogger(__name__)

NAMESRV_ADDR: Final = "NAMESRV_ADDR"  # in the environment
TIMEOUT_S: Final = 3.0
ANSWER_BYTES_MAX: Final = 64 * 1024
PORTS: Final = {"http": 80, "https": 443}


def parse_namesrv(namesrv: str | Sequence[str] | None) -> tuple[str, ...]:
    """Read nameserver addresses: "host:port;host:port", commas as well, or a sequence of them.

    One HTTP URL instead is that of a server that tells the addresses; None stands for what
    NAMESRV_ADDR says in the environment, as for RocketMQ's clients. Raises InvalidUse if there is
    none, or such a URL beside something else, BadAddress for what is no address.
    """
    where = f"namesrv={namesrv!r}"
    if namesrv is None:
        namesrv = os.environ.get(NAMESRV_ADDR, "")
        where = f"{NAMESRV_ADDR}={namesrv!r}"
    parts = re.split(r"[;,\s]+", namesrv) if isinstance(namesrv, str) else namesrv
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
        raise wrong_argument("namesrv", "'host:port;host:port' or a sequence of these", namesrv)
    addresses = tuple(part.strip() for part in parts if part.strip())
    if not addresses:
        raise InvalidUse(
            "no nameserver address given; write for example namesrv='127.0.0.1:9876', or set"
            f" {NAMESRV_ADDR} in the environment"
        )
    if any("://" in address for address in addresses):
        if len(addresses) > 1:
            raise InvalidUse(f"{where}: a URL of an address server stands alone")
        if not is_address_server(addresses):
            raise BadAddress(f"{where}: an address server has an HTTP URL")
        return addresses
    for address in addresses:
        try:
            parse_address(address)
        except BadAddress as error:
            raise BadAddress(f"{where}: {error}; write for example '127.0.0.1:9876'") from None
    return addresses


def is_address_server(namesrv: tuple[str, ...]) -> bool:
    """Whether a user gave the URL of an address server instead of addresses."""
    return len(namesrv) == 1 and _is_url(namesrv[0])


def host_of(namesrv: str) -> str:
    """Return the "host:port" of an address as it is, or of an address server's URL."""
    if not _is_url(namesrv):
        return namesrv
    from urllib.parse import urlsplit  # which clients with addresses need not wait for

    url = urlsplit(namesrv)
    return format_address(url.hostname or "", url.port or PORTS[url.scheme])


def _is_url(text: str) -> bool:
    return text.partition(":")[0].lower() in PORTS and "://" in text


class AddressServer:
    """Asks one URL for "host:port;host:port", its answer's first line (DefaultTopAddressing.java).

    With a unit name the question goes to `URL-unit?nofix=1`. What it answers replaces the contents
    of `addresses`; while it does not answer, or with nonsense, they stay.
    """

    def __init__(self, url: str, unit_name: str, addresses: list[str]) -> None:
        self.url = f"{url}-{unit_name}?nofix=1" if unit_name else url
        self._addresses = addresses
        self._asking: SingleFlight[None] | None = None

    async def find(self) -> None:
        """Wait for the first addresses; raises Unavailable if they cannot be had."""
        if not self._addresses:
            if self._asking is None or self._asking.task.done():
                self._asking = SingleFlight(self._ask())
            await self._asking.wait()

    async def refresh(self) -> None:
        """Ask again; a failure is logged, and the known addresses stay."""
        try:
            await self._ask()
        except AerobeeError as error:
            log.warning("nameserver addresses not refreshed: %s", error)

    async def _ask(self) -> None:
        addresses = self._read(await self._get())
        if addresses != self._addresses:
            log.info("nameservers changed old=%s new=%s", self._addresses, addresses)
            self._addresses[:] = addresses

    def _read(self, text: str) -> list[str]:
        line = text.strip().splitlines()[0] if text.strip() else ""
        addresses = [part.strip() for part in line.split(";") if part.strip()]
        try:
            for address in addresses:
                parse_address(address)
        except AerobeeError as error:
            raise Unavailable(f"{self.url} answered no nameserver addresses: {error}") from error
        if not addresses:
            raise Unavailable(f"{self.url} answered no nameserver addresses")
        return addresses

    async def _get(self) -> str:
        need("http", f"namesrv={self.url!r}")
        import aiohttp  # takes a quarter of a second, which other clients need not wait

        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as session,
                session.get(self.url) as response,
            ):
                if response.status != 200:
                    raise Unavailable(f"{self.url} answered HTTP status {response.status}")
                data = await response.content.read(ANSWER_BYTES_MAX)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise Unavailable(f"no answer from {self.url}: {error or 'time is up'}") from error
        return data.decode("utf-8", "replace")
