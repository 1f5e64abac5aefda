"""Addresses as text, pairs and bytes."""

import pytest

from aerobee.remoting.net.addresses import (
    BadAddress,
    format_address,
    pack_address,
    parse_address,
    peer_address,
)


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("10.0.0.1:9876", ("10.0.0.1", 9876)),
        ("[::1]:9876", ("::1", 9876)),
        ("::1:9876", ("::1", 9876)),
        (" broker-a.local:1 ", ("broker-a.local", 1)),
    ],
)
def test_addresses_are_read(text: str, pair: tuple[str, int]) -> None:
    """IPv4, IPv6 with and without brackets, names."""
    assert parse_address(text) == pair
    assert parse_address(format_address(*pair)) == pair


@pytest.mark.parametrize(
    "text",
    ["", "x", ":1", "x:", "x:-1", "x:0", "x:65536", "x:١", "a..b:1", "a b:1", "x:" + "9" * 5000],
)
def test_bad_addresses_are_refused(text: str) -> None:
    """Anything that is not host:port is named in the error."""
    with pytest.raises(BadAddress, match="address"):
        parse_address(text)


def test_peers_of_a_shared_socket_keep_their_family() -> None:
    """An IPv4 peer seen through an IPv6 socket is an IPv4 peer."""
    assert peer_address(("::ffff:10.0.0.1", 5, 0, 0)) == ("10.0.0.1", 5)
    assert peer_address(("fe80::1%eth0", 5, 0, 2)) == ("fe80::1", 5)
    assert peer_address("") == ("", 0)


def test_bytes_are_those_of_a_record() -> None:
    """Four or sixteen bytes, then the port as int32."""
    assert pack_address("10.0.0.1", 258) == b"\x0a\0\0\x01\0\0\x01\x02"
    assert pack_address("::1", 1) == bytes(15) + b"\x01\0\0\0\x01"
