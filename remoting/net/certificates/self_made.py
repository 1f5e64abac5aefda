"""A certificate that a server without any makes for itself, as netty's SelfSignedCertificate does.

It proves nothing: who is shown it cannot tell the server from somebody in between.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

NAME: Final = "localhost"
AGE: Final = timedelta(days=365)  # for peers whose clocks are behind
LIFE: Final = timedelta(days=3650)  # no process lives so long; the next one makes another


def certificate_and_key() -> bytes:
    """Make a key (P-256) and a certificate signed by it; both as PEM, the key not encrypted."""
    from cryptography import x509  # late: most servers never need it
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - AGE)
        .not_valid_after(now + LIFE)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    written: bytes = certificate.public_bytes(Encoding.PEM) + key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    return written
