"""Certificates of tests, servers that ask for them, and others made when they are needed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from aerobee.remoting.net.tls import ClientAuth, TlsClientSettings, TlsMode, TlsSettings

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


class Pair:
    """A self-signed certificate and its key, in two files of a folder that may be written anew."""

    def __init__(self, folder: Path, name: str = "pair") -> None:
        self.cert, self.key = folder / f"{name}.pem", folder / f"{name}.key"

    def write(self, name: str, *, expired: bool = False, early: bool = False) -> None:
        """Write both for a common name."""
        cert, key = made(name, expired=expired, early=early)
        replace(self.cert, cert)
        replace(self.key, key)

    def server(self, mode: TlsMode = TlsMode.PERMISSIVE) -> TlsSettings:
        """The settings of a server that shows it."""
        return TlsSettings(mode=mode, cert_path=str(self.cert), key_path=str(self.key))

    def client(self) -> TlsClientSettings:
        """The settings of a client that shows it and takes any server's."""
        return TlsClientSettings(cert_path=str(self.cert), key_path=str(self.key))


def replace(path: Path, data: bytes) -> None:
    """Write a file as those do who renew certificates: aside, then renamed."""
    aside = path.with_suffix(".new")
    aside.write_bytes(data)
    aside.replace(path)


def made(name: str, *, expired: bool = False, early: bool = False) -> tuple[bytes, bytes]:
    """Make a certificate of 127.0.0.1 that signs itself; return it and its key, as PEM.

    One that is `expired` was valid until yesterday, one that is `early` will be from tomorrow on.
    """
    from ipaddress import IPv4Address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=-1 if early else 30))
        .not_valid_after(now + timedelta(days=-1 if expired else 30))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    written = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM), written
