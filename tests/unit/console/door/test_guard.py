"""From which address somebody comes, as what he is counted."""

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from aerobee.console.door.guard import caller, neighbours


@pytest.mark.parametrize(
    ("told", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("10.0.0.1, 192.0.2.1", "192.0.2.1"),
        ("192.0.2.1:50000", "192.0.2.1"),
        ("[2001:db8::1]:50000", "2001:db8::1"),
        ("2001:DB8::1", "2001:db8::1"),
        ("192.0.2.1 user='root'", None),
        ("unknown", None),
        ("", None),
    ],
)
def test_an_address_is_what_a_proxy_wrote_without_a_port(told: str, address: str | None) -> None:
    """Each connection would be somebody else, who may guess anew; words would be in the log."""
    request = make_mocked_request("POST", "/login", {"X-Forwarded-For": told})
    assert caller(request, behind_proxy=True) == (address or request.remote or "")
    assert caller(request, behind_proxy=False) == (request.remote or "")


def test_the_last_of_several_headers_is_the_proxys() -> None:
    """It may add a line of its own to what a caller claims."""
    headers = [("X-Forwarded-For", "10.0.0.1"), ("X-Forwarded-For", "192.0.2.1")]
    request = make_mocked_request("POST", "/login", CIMultiDict(headers))
    assert caller(request, behind_proxy=True) == "192.0.2.1"


def test_one_host_of_ipv6_is_one_caller() -> None:
    """It has as many addresses as it likes."""
    assert neighbours("2001:db8::1") == neighbours("2001:db8::ffff:1") == "2001:db8::/64"
    assert neighbours("2001:db8:0:1::1") != neighbours("2001:db8::1")
    assert neighbours("::ffff:192.0.2.1") == neighbours("192.0.2.1") == "192.0.2.1"
    assert neighbours("fe80::1%eth0") == "fe80::/64" and neighbours("") == ""
