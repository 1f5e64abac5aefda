"""Why there is no connection, in words that say what to do."""

import os
import socket
import ssl
from typing import Final

# what OpenSSL calls it, and what it means of the other side
_OF_TLS: Final = {
    "WRONG_VERSION_NUMBER": "it answers, but not with TLS: it may be a plain port",
    "RECORD_LAYER_FAILURE": "it answers, but not with TLS: it may be a plain port",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it asks for a certificate (tls.client.certPath)",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it accepts no cipher of ours, or asks for a certificate",
}


def why_not_connected(error: OSError | ValueError, *, encrypted: bool) -> str:
    """Say why there is no connection; asyncio's own text repeats the address and adds numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):  # an OSError and a ValueError
        return f"its certificate is refused: {error.verify_message}"
    if not isinstance(error, OSError):
        return f"no host name: {error}"
    if isinstance(error, ssl.SSLError):
        return _OF_TLS.get(error.reason or "", error.reason or error.strerror or str(error))
    if encrypted and isinstance(error, ConnectionError) and not _refused(error):
        return "it closed the connection instead of a TLS handshake: it may serve plain ones only"
    if isinstance(error, socket.gaierror) or not error.errno:
        return error.strerror or str(error) or type(error).__name__
    return os.strerror(error.errno)


def why_lost(error: Exception | None, *, answered: bool) -> str:
    """Say why a connection has ended by itself; not `answered` is one that was never heard from."""
    if error is None:
        reason = "closed by the peer"
    elif isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        reason = os.strerror(error.errno)
    else:
        reason = str(error)
    if answered:
        return reason
    return f"{reason} before it said anything: it may want TLS, or a certificate that it trusts"


def _refused(error: ConnectionError) -> bool:
    return isinstance(error, ConnectionRefusedError)
