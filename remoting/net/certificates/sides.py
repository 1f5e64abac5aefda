"""What the two sides of a connection encrypt with: shared by the ports, or calls, of a process."""

import asyncio
import logging
import ssl
import tempfile
from pathlib import Path
from weakref import WeakKeyDictionary

from aerobee.remoting.net.certificates.self_made import certificate_and_key
from aerobee.remoting.net.certificates.validity import ends_s, out_of_date
from aerobee.remoting.net.certificates.watched import WatchedContext
from aerobee.remoting.net.single_flight import SingleFlight
from aerobee.remoting.net.tls import TlsClientSettings, TlsError, TlsMode, TlsSettings

log = logging.getLogger(__name__)


class ServerTls:
    """What a server shows those who want TLS, shared by the ports of a process.

    Without a certificate a permissive server makes one when somebody asks for it
    (`tls.test.mode.enable`): the traffic is hidden from who only listens, but nothing proves who
    the server is, so clients must not verify it.
    """

    def __init__(self, settings: TlsSettings) -> None:
        """Load the certificate; raises TlsError."""
        self.mode = settings.mode
        self._watched: WatchedContext | None = None
        self._ends: tuple[ssl.SSLContext, int | None] | None = None
        self._made: ssl.SSLContext | None = None
        self._making: SingleFlight[ssl.SSLContext] | None = None
        if settings.mode is TlsMode.DISABLED:
            return
        settings.check()
        if settings.makes_certificate:
            return
        if settings.mode is TlsMode.PERMISSIVE and not settings.names_certificate:
            self.mode = TlsMode.DISABLED
            return
        paths = (settings.cert_path, settings.key_path, settings.trust_cert_path)
        self._watched = WatchedContext(settings.context, paths, out_of_date=out_of_date)

    def look(self) -> None:
        """Take over certificates that have changed."""
        if self._watched is not None:
            self._watched.look()

    def ends_s(self) -> int | None:
        """Return when the certificate that is shown ends, in seconds since 1970.

        None without TLS, and for one that was made here, which nobody can verify. Some
        milliseconds, once for each certificate.
        """
        if self._watched is None:
            return None
        if self._ends is None or self._ends[0] is not self._watched.context:
            self._ends = self._watched.context, ends_s(self._watched.context)
        return self._ends[1]

    async def context(self) -> ssl.SSLContext:
        """Return what the next handshake is made with; raises TlsError where there is nothing."""
        if self._watched is not None:
            return self._watched.context
        if self._made is not None:
            return self._made
        if self._making is None:
            self._making = SingleFlight(asyncio.to_thread(_self_made))
        task = self._making.task
        try:
            self._made = task.result() if task.done() else await self._making.wait()
        except TlsError:
            self._making = None  # a full disk may have room again when the next one asks
            raise
        return self._made


class ClientTls:
    """What our own connections are encrypted with; `TlsClientSettings` may name files."""

    def __init__(self, settings: TlsClientSettings) -> None:
        """Load trust and certificate; raises TlsError."""
        self._settings = settings
        self._shown: WeakKeyDictionary[ssl.SSLContext, ssl.SSLContext] = WeakKeyDictionary()
        paths = (settings.cert_path, settings.key_path, settings.trust_cert_path)
        self._watched = WatchedContext(self._load, paths, out_of_date=self._out_of_date)

    def context(self) -> ssl.SSLContext:
        """Return what the next handshake is made with."""
        self._watched.look()
        return self._watched.context

    def look(self) -> None:
        """Take over certificates that have changed."""
        self._watched.look()

    def _load(self) -> ssl.SSLContext:
        context, shown = self._settings.context(), self._settings.shown()
        if shown is not None:
            self._shown[context] = shown
        return context

    def _out_of_date(self, context: ssl.SSLContext) -> str:
        """Say what servers will say of the dates of our certificate; "" where it is none."""
        shown = self._shown.get(context)
        return out_of_date(shown) if shown is not None else ""


def _self_made() -> ssl.SSLContext:
    """Load a new key and its certificate, which `ssl` takes from a file only; it is gone at once.

    Raises TlsError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        with tempfile.TemporaryDirectory(prefix="aerobee-tls-") as folder:
            both = Path(folder) / "both.pem"
            both.touch(mode=0o600)
            both.write_bytes(certificate_and_key())
            context.load_cert_chain(both)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(
            f"no certificate can be made ({error}): set tls.server.certPath and"
            " tls.server.keyPath, or tls.server.mode=disabled"
        ) from error
    log.info("a certificate of our own is shown to clients: nobody can verify it")
    return context
