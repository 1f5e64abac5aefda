"""Certificates of tests, and a server that asks its clients for theirs."""

from pathlib import Path
from typing import Final

from aerobee.remoting.net.tls import ClientAuth, TlsMode, TlsSettings

CERTS: Final = Path(__file__).parent / "certs"


def mutual_tls() -> TlsSettings:
    """Return the settings of a server that takes TLS alone, from those who have a certificate."""
    return TlsSettings(
        mode=TlsMode.ENFORCING,
        cert_path=str(CERTS / "server.pem"),
        key_path=str(CERTS / "server.key"),
        client_auth=ClientAuth.REQUIRE,
        verify_client=True,
        trust_cert_path=str(CERTS / "ca.pem"),
    )
