"""TLS settings: refused with a clear word where they cannot work."""

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from support.servers.tls_certs import CERTS, made

from aerobee.remoting.net.certificates.sides import ServerTls
from aerobee.remoting.net.tls import (
    ClientAuth,
    TlsClientSettings,
    TlsError,
    TlsMode,
    TlsSettings,
)


def test_a_missing_file_is_named() -> None:
    """A path that leads nowhere is told with its property."""
    settings = TlsSettings(cert_path="/nowhere/c.pem", key_path="/nowhere/k.pem")
    with pytest.raises(TlsError, match=r"tls\.server\.certPath='/nowhere/c\.pem'"):
        settings.context()


@pytest.mark.parametrize("password", ["", "wrong", "x" * 2000])
@pytest.mark.parametrize("side", ["server", "client"])
def test_a_password_that_is_not_the_key_s_is_told(tmp_path: Path, side: str, password: str) -> None:
    """OpenSSL has no word for it, and Python raises another error for a long one."""
    cert, key = made("localhost")
    encrypted = load_pem_private_key(key, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"right")
    )
    (tmp_path / "cert.pem").write_bytes(cert)
    (tmp_path / "key.pem").write_bytes(encrypted)
    cert_path, key_path = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    kind = TlsSettings if side == "server" else TlsClientSettings
    with pytest.raises(TlsError, match=rf"tls\.{side}\.keyPath=.*password"):
        kind(cert_path=cert_path, key_path=key_path, key_password=password).context()
    kind(cert_path=cert_path, key_path=key_path, key_password="right").context()


def test_certificates_that_would_not_be_verified_are_not_required() -> None:
    """Requiring a certificate without checking it would only look safe."""
    settings = TlsSettings(
        cert_path=str(CERTS / "server.pem"),
        key_path=str(CERTS / "server.key"),
        client_auth=ClientAuth.REQUIRE,
    )
    with pytest.raises(TlsError, match=r"tls\.server\.authClient=true"):
        settings.context()


PAIR = {"cert_path": str(CERTS / "server.pem"), "key_path": str(CERTS / "server.key")}
CA = str(CERTS / "ca.pem")


@pytest.mark.parametrize("mode", [TlsMode.PERMISSIVE, TlsMode.ENFORCING])
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({**PAIR, "verify_client": True, "trust_cert_path": CA}, r"need\.client\.auth=require"),
        ({**PAIR, "trust_cert_path": CA}, r"tls\.server\.trustCertPath means nothing"),
        ({**PAIR, "client_auth": ClientAuth.REQUIRE}, r"tls\.server\.authClient=true"),
        ({"client_auth": ClientAuth.REQUIRE}, r"tls\.server\.authClient=true"),
        (
            {"client_auth": ClientAuth.REQUIRE, "verify_client": True, "trust_cert_path": CA},
            r"needs tls\.server\.certPath",
        ),
    ],
)
def test_clients_that_would_not_be_verified_are_told(
    mode: TlsMode, given: dict[str, Any], named: str
) -> None:
    """Who says half of what verifies clients is not left to believe that they are verified."""
    with pytest.raises(TlsError, match=named):
        ServerTls(TlsSettings(mode=mode, **given))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"trust_cert_path": CA}, r"tls\.client\.authServer=true"),
        ({"check_hostname": True}, r"tls\.client\.authServer=true"),
        ({"key_path": PAIR["key_path"]}, r"tls\.client\.certPath"),
    ],
)
def test_a_server_that_would_not_be_verified_is_told(given: dict[str, Any], named: str) -> None:
    """Authorities that nobody looks at would only look safe."""
    with pytest.raises(TlsError, match=named):
        TlsClientSettings(**given).context()
