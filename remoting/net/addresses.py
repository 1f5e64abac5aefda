"""Socket addresses as RocketMQ writes them: "ip:port" as text, ip and int32 port as bytes."""

import re
import socket
from ipaddress import IPv6Address
from typing import Any, Final

from aerobee.remoting.errors import AerobeeError

_MAPPED: Final = "::ffff:"  # an IPv4 peer on a socket that serves both families
_LABEL: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_NAME_CHARS_MAX: Final = 253  # RFC 1035, without a dot at the end


class BadAddress(AerobeeError):
    """An address is not of the form host:port.

        except BadAddress as error:
            print(error)  # namesrv='127.0.0.1': address '127.0.0.1' is not of the form host:port

    IPv6 hosts stand in brackets, [::1]:9876; a port is 1 to 65535.
    """


def peer_address(peername: Any) -> tuple[str, int]:
    """Return (ip, port) of what a socket calls its peer; ("", 0) when it has none."""
    if not isinstance(peername, tuple) or len(peername) < 2:
        return "", 0
    ip, port = str(peername[0]), int(peername[1])
    if ip.startswith(_MAPPED) and "." in ip:
        ip = ip[len(_MAPPED) :]
    return ip.partition("%")[0], port


def peer_of(connected: socket.socket) -> str:
    """Return the peer of a socket as "ip:port"; "?" when it is gone."""
    try:
        return format_address(*peer_address(connected.getpeername()))
    except OSError:
        return "?"


def format_address(ip: str, port: int) -> str:
    """Write host and port as one text; an IPv6 host goes into brackets."""
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def parse_address(address: str) -> tuple[str, int]:
    """Read "host:port", "[::1]:9876" or "::1:9876"; raises BadAddress."""
    host, colon, port = address.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit():
        raise BadAddress(f"address {address!r} is not of the form host:port")
    if len(port) > 5 or not 0 < int(port) < 65536:
        raise BadAddress(f"address {address!r}: a port is 1 to 65535")
    try:
        host.encode("idna")  # as whoever looks the name up does
    except UnicodeError as error:
        raise BadAddress(f"address {address!r}: no host name: {error}") from None
    if not host.isprintable() or " " in host:
        raise BadAddress(f"address {address!r}: no host name has blanks or control characters")
    return host, int(port)


def check_address(address: str) -> None:
    """Raise BadAddress, which says why, where no resolver could find the host of "host:port"."""
    host, _ = parse_address(address)
    if ":" in host:
        try:
            IPv6Address(host)
        except ValueError:
            raise BadAddress(f"address {address!r}: {host!r} is no IPv6 address") from None
        return
    try:
        name = host.removesuffix(".").encode("idna").decode()
    except UnicodeError:  # an empty label, or one that is too long
        name = ""
    wrong = [label for label in name.split(".") if not _LABEL.fullmatch(label)]
    if wrong or len(name) > _NAME_CHARS_MAX:
        raise BadAddress(
            f"address {address[:300]!r}: the host is neither an IP address nor a name of labels of"
            " 1 to 63 letters, digits and hyphens"
        )


def pack_address(ip: str, port: int) -> bytes:
    """Pack an address as message records do: 4 or 16 bytes of ip, then the port as int32."""
    if not ip:
        return bytes(8)
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    return socket.inet_pton(family, ip) + port.to_bytes(4, "big")
