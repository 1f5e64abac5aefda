"""Who may change, over the network, settings that could destroy or expose.

A server without access control serves whoever reaches its port. What could delete the log or open
another door is therefore taken from this machine alone, unless `adminAllowedNetworks` says more.
"""

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final

from aerobee.remoting.net.addresses import peer_address
from aerobee.remoting.net.connection import Connection

NOBODY: Final = "none"
Network = IPv4Network | IPv6Network


def parse_networks(text: str) -> tuple[Network, ...]:
    """Read "10.0.0.0/8; fd00::/8; 192.0.2.7"; raises ValueError that names what is no network."""
    parts = (part.strip() for part in text.replace(",", ";").split(";"))
    return tuple(ip_network(part) for part in parts if part and part.lower() != NOBODY)


def check_networks(text: str) -> str:
    """Return what can be read as networks, for a setting; ValueError says what is allowed."""
    try:
        parse_networks(text)
    except ValueError as error:
        raise ValueError(f"allowed: networks like 10.0.0.0/8, joined by ; ({error})") from None
    return text


def is_trusted(connection: Connection, allowed: str) -> bool:
    """Whether the peer of a connection may change what is guarded.

    Peers on this machine may, unless `allowed` is "none": those on loopback, and those that dialled
    one of its own addresses, since the two ends are the same then. The address is the socket's. A
    proxy on this machine, or one in an allowed network, speaks for everybody behind it, so whoever
    runs one says "none" or leaves its address out. IPv4 in IPv6 counts as the IPv4 address.
    """
    host = connection.remote_host[0]
    if not host:
        return False
    address = ip_address(host)
    address = getattr(address, "ipv4_mapped", None) or address
    if any(address in network for network in parse_networks(allowed)):
        return True
    if NOBODY in allowed.lower():
        return False
    own, _ = peer_address(connection.transport.get_extra_info("sockname"))
    return address.is_loopback or host == own
