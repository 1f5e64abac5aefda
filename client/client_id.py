"""The id by which brokers know one client."""

import os
import socket
import time

from aerobee.client.address_server import host_of
from aerobee.client.settings import ClientSettings
from aerobee.remoting.net.addresses import parse_address


def make_client_id(namesrv: str, settings: ClientSettings) -> str:
    """Return "ip@instance[@unit]" by which brokers know this client (ClientConfig.java)."""
    instance = settings.instance_name or f"{os.getpid()}#{time.time_ns()}"
    parts = [settings.client_ip or local_ip(namesrv), instance]
    if settings.unit_name:
        parts.append(settings.unit_name)
    return "@".join(parts)


def local_ip(namesrv: str) -> str:
    """Return the address of this machine from which the nameserver is reached; sends nothing.

    `namesrv` is "host:port", or the URL of an address server.
    """
    host, port = parse_address(host_of(namesrv))
    for family in (socket.AF_INET, socket.AF_INET6):
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((host, port))
            except OSError:
                continue
            return str(probe.getsockname()[0])
    return "127.0.0.1"
