"""Until when the certificate that a server shows is valid, and whether it is, as OpenSSL says."""

import ssl
from contextlib import suppress
from typing import Final

TURNS: Final = 3  # of both sides; TLS 1.2 needs two
_NO_CHECK_TIME: Final = 0x200000  # X509_V_FLAG_NO_CHECK_TIME: what has ended shows its end, too
_OUT_OF_DATE: Final = (9, 10)  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED


def out_of_date(server: ssl.SSLContext) -> str:
    """Return "certificate has expired" or "... is not yet valid" by this machine's clock, else "".

    Found out by handshakes in memory, one to see the certificate and one that trusts that alone,
    for `ssl` shows no certificate that was loaded; that takes a few milliseconds. Whatever else may
    be wrong with it is for clients to say.
    """
    with suppress(ssl.SSLError):
        try:
            _shake_hands(_judge(server), server)
        except ssl.SSLCertVerificationError as error:
            return error.verify_message if error.verify_code in _OUT_OF_DATE else ""
    return ""


def ends_s(server: ssl.SSLContext) -> int | None:
    """Return when the certificate that a server shows ends, in seconds since 1970, else None."""
    with suppress(ssl.SSLError):
        judge = _judge(server)
        judge.verify_flags |= _NO_CHECK_TIME
        found = _shake_hands(judge, server)
        told = found.getpeercert() if found is not None else None
        if told:
            return int(ssl.cert_time_to_seconds(str(told["notAfter"])))
    return None


def _judge(server: ssl.SSLContext) -> ssl.SSLContext:
    """Return a client that trusts what a server shows, and nothing else."""
    curious = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    curious.check_hostname, curious.verify_mode = False, ssl.CERT_NONE
    found = _shake_hands(curious, server)
    judge = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    judge.check_hostname = False
    judge.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if found is not None and (shown := found.getpeercert(binary_form=True)):
        judge.load_verify_locations(cadata=shown)
    return judge


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> ssl.SSLObject | None:
    """Return the client's side of a handshake; raises what it says of the certificate."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server)
    shown = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(TURNS):
        with suppress(ssl.SSLWantReadError):
            asking.do_handshake()
            return asking
        with suppress(ssl.SSLWantReadError):
            shown.do_handshake()
    return None
