"""The address that records carry."""

import ipaddress
import socket

from aerobee.remoting.config.settings import SettingsError


def record_host(ip: str, port: int) -> tuple[str, int]:
    """Return a host that fits a record: a name is resolved, records hold addresses only.

    Raises SettingsError for a name that has no address.
    """
    try:
        ipaddress.ip_address(ip)
    except ValueError:
        try:
            ip = str(socket.getaddrinfo(ip, port, type=socket.SOCK_STREAM)[0][4][0])
        except OSError:
            message = f"brokerIP1 cannot be {ip!r}: it is no address, and no name that has one"
            raise SettingsError(message) from None
    return ip, port
