"""The id by which brokers know one client."""

import asyncio
import ipaddress
import os
import socket
import time
from typing import Any

from aerobee.client.cluster.address_server import host_of
from aerobee.client.settings import ClientSettings
from aerobee.remoting.net.addresses import parse_address

UNKNOWN_IP = "127.0.0.1"


def make_client_id(namesrv: str, settings: ClientSettings) -> str:
    """Return "ip@instance[@unit]" by which brokers know this client (ClientConfig.java).

    Empty where the nameserver has a name that has to be looked up first: `find_client_id` does.
    """
    ip = settings.client_ip or local_ip(namesrv)
    return _in_words(ip, settings) if ip else ""


async def find_client_id(namesrv: str, settings: ClientSettings) -> str:
    """Return the client id as `make_client_id` does, looking the nameserver's name up."""
    host, port = parse_address(host_of(namesrv))
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError:
        found = []
    ips = [_way_to(family, address) for family, _, _, _, address in found]
    return _in_words(next(filter(None, ips), UNKNOWN_IP), settings)


def local_ip(namesrv: str) -> str:
    """Return the address of this machine from which the nameserver is reached; sends nothing.

    `namesrv` is "host:port", or the URL of an address server; empty where the host is a name.
    """
    host, port = parse_address(host_of(namesrv))
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return ""
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    return _way_to(family, (host, port)) or UNKNOWN_IP


def _way_to(family: int, address: Any) -> str:
    """Return our end of the way to an address that needs no look-up; empty if there is no way."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def _in_words(ip: str, settings: ClientSettings) -> str:
    instance = settings.instance_name or f"{os.getpid()}#{time.time_ns()}"
    parts = [ip, instance]
    if settings.unit_name:
        parts.append(settings.unit_name)
    return "@".join(parts)
