"""TLS settings: read from RocketMQ's properties, refused with a clear word."""

from pathlib import Path

import pytest

from aerobee.remoting.net.tls import (
    ClientAuth,
    TlsClientSettings,
    TlsError,
    TlsMode,
    TlsSettings,
    client_tls,
    server_tls,
)

CERTS = Path(__file__).parents[2] / "support" / "certs"


def test_server_properties_are_read() -> None:
    """Every tls.server.* property of RocketMQ has its place."""
    assert server_tls({}) == TlsSettings()
    assert server_tls(
        {
            "tls.server.mode": "ENFORCING",
            "tls.server.certPath": "c",
            "tls.server.keyPath": "k",
            "tls.server.keyPassword": "p",
            "tls.server.need.client.auth": "require",
            "tls.server.authClient": "true",
            "tls.server.trustCertPath": "t",
        }
    ) == TlsSettings(
        mode=TlsMode.ENFORCING,
        cert_path="c",
        key_path="k",
        key_password="p",
        client_auth=ClientAuth.REQUIRE,
        verify_client=True,
        trust_cert_path="t",
    )


def test_client_properties_are_read() -> None:
    """A client uses TLS when tls.enable says so, and then as tls.client.* says."""
    assert client_tls({"tls.client.certPath": "c"}) is None
    assert client_tls({"tls.enable": "true", "tls.client.authServer": "true"}) == TlsClientSettings(
        verify_server=True
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tls.server.mode", "on"),
        ("tls.server.need.client.auth", "yes"),
        ("tls.server.authClient", "1"),
    ],
)
def test_a_bad_value_is_named(key: str, value: str) -> None:
    """The error names the property, the value and what is allowed."""
    with pytest.raises(TlsError, match=rf"{key}='{value}' is not one of \w+"):
        server_tls({key: value})


def test_a_missing_file_is_named() -> None:
    """A path that leads nowhere is told with its property."""
    settings = TlsSettings(cert_path="/nowhere/c.pem", key_path="/nowhere/k.pem")
    with pytest.raises(TlsError, match=r"tls\.server\.certPath='/nowhere/c\.pem'"):
        settings.context()


def test_certificates_that_would_not_be_verified_are_not_required() -> None:
    """Requiring a certificate without checking it would only look safe."""
    settings = TlsSettings(
        cert_path=str(CERTS / "server.pem"),
        key_path=str(CERTS / "server.key"),
        client_auth=ClientAuth.REQUIRE,
    )
    with pytest.raises(TlsError, match=r"tls\.server\.authClient=true"):
        settings.context()
