"""TLS settings: refused with a clear word where they cannot work."""

import pytest
from support.tls_certs import CERTS

from aerobee.remoting.net.tls import (
    ClientAuth,
    TlsError,
    TlsSettings,
)


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
