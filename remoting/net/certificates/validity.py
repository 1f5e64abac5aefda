"""Whether the certificate that a server shows is out of date, in OpenSSL's own words."""

import ssl
from contextlib import suppress
from typing import Final

TURNS: Final = 3  # of both sides; TLS 1.2 needs two
_OUT_OF_DATE: Final = (9, 10)  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED


def out_of_date(server: ssl.SSLContext) -> str:
    """Return "certificate has expired" or "... is not yet valid" by this machine's clock, else "".

    Found out by handshakes in memory, one to see the certificate and one that trusts that alone,
    for `ssl` shows no certificate that was loaded; that takes a few milliseconds. Whatever else may
    be wrong with it is for clients to say.
    """
    curious = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    curious.check_hostname, curious.verify_mode = False, ssl.CERT_NONE
    with suppress(ssl.SSLError):
        shown = _shake_hands(curious, server)
        if shown is None:
            return ""
        judge = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        judge.check_hostname = False
        judge.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        judge.load_verify_locations(cadata=shown)
        try:
            _shake_hands(judge, server)
        except ssl.SSLCertVerificationError as error:
            return error.verify_message if error.verify_code in _OUT_OF_DATE else ""
    return ""


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> bytes | None:
    """Return the certificate that a server shows, as DER; raises what the client says of it."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server)
    shown = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(TURNS):
        with suppress(ssl.SSLWantReadError):
            asking.do_handshake()
            return asking.getpeercert(binary_form=True)
        with suppress(ssl.SSLWantReadError):
            shown.do_handshake()
    return None
