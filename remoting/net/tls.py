"""TLS as RocketMQ configures it: three server modes on one port, and certificates by file name.

The names of the `tls.*` properties and their meaning are those of TlsSystemConfig.java and
TlsHelper.java. Four things differ. In the test mode (`tls.test.mode.enable`, as in Java on unless
set) only a permissive server without a certificate makes one; Java does not look at those that are
configured then. A server that enforces TLS needs one. A client certificate is asked for only to
verify it: Java can be told to accept any. And what would verify nobody is refused where Java passes
over it: authorities to trust without the word to verify, or that word alone.
"""

import ssl
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from aerobee.remoting.errors import AerobeeError

HANDSHAKE_BYTE: Final = 0x16  # a TLS record of type handshake; as a frame it would be over 352 MiB


class TlsMode(StrEnum):
    """Who may connect how (TlsMode.java)."""

    DISABLED = "disabled"  # TLS handshakes are refused
    PERMISSIVE = "permissive"  # the first byte decides
    ENFORCING = "enforcing"  # plain connections are refused


class ClientAuth(StrEnum):
    """Whether a client has to show a certificate (`tls.server.need.client.auth`)."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


class TlsError(AerobeeError):
    """TLS cannot be set up; the text names the property and the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The server's side; a `cert_path` may hold the whole chain, PEM as all the files."""

    mode: TlsMode = TlsMode.PERMISSIVE
    cert_path: str = ""
    key_path: str = ""
    key_password: str = field(default="", repr=False)
    client_auth: ClientAuth = ClientAuth.NONE
    verify_client: bool = False
    trust_cert_path: str = ""
    test_mode: bool = True

    @property
    def makes_certificate(self) -> bool:
        """Whether the server makes a certificate when somebody asks for TLS."""
        return self.mode is TlsMode.PERMISSIVE and self.test_mode and not self.names_certificate

    @property
    def names_certificate(self) -> bool:
        """Whether there is something to load."""
        return bool(self.cert_path or self.key_path)

    def check(self) -> None:
        """Raise TlsError where clients were to be verified, and would not be."""
        asks = self.client_auth is not ClientAuth.NONE
        if self.client_auth is ClientAuth.REQUIRE and not self.verify_client:
            raise TlsError(
                "tls.server.need.client.auth=require needs tls.server.authClient=true"
                " and tls.server.trustCertPath"
            )
        if self.verify_client and not asks:
            raise TlsError(
                "tls.server.authClient=true verifies nobody while clients are not asked for a"
                " certificate: set tls.server.need.client.auth=require (or optional)"
            )
        if self.trust_cert_path and not self.verify_client:
            raise TlsError(
                "tls.server.trustCertPath means nothing while clients are not verified: set"
                " tls.server.authClient=true, or leave it out"
            )
        if self.verify_client and not self.names_certificate:
            raise TlsError(
                "tls.server.authClient=true needs tls.server.certPath and tls.server.keyPath"
            )

    def context(self) -> ssl.SSLContext:
        """Load the certificate. Raises TlsError, also where none is named."""
        self.check()
        if not self.cert_path or not self.key_path:
            raise TlsError(
                f"tls.server.mode={self.mode} needs tls.server.certPath and tls.server.keyPath"
            )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _load_chain(context, "tls.server", self.cert_path, self.key_path, self.key_password)
        if self.verify_client and self.client_auth is not ClientAuth.NONE:
            _load_trust(context, "tls.server", self.trust_cert_path, ssl.Purpose.CLIENT_AUTH)
            required = self.client_auth is ClientAuth.REQUIRE
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsClientSettings:
    """The client's side; without `verify_server` any certificate will do, as in RocketMQ."""

    cert_path: str = ""
    key_path: str = ""
    key_password: str = field(default="", repr=False)
    verify_server: bool = False
    trust_cert_path: str = ""
    check_hostname: bool = False  # RocketMQ never does; brokers are most often known by address

    def context(self) -> ssl.SSLContext:
        """Load trust and, if there is one, the own certificate.

        Raises TlsError, also where a file or a wish is named that would have no effect.
        """
        if not self.verify_server and (self.trust_cert_path or self.check_hostname):
            what = "tls.client.trustCertPath" if self.trust_cert_path else "check_hostname"
            raise TlsError(
                f"{what} means nothing while servers are not verified: set"
                " tls.client.authServer=true, or leave it out"
            )
        if self.key_path and not self.cert_path:
            raise TlsError("tls.client.keyPath means nothing without tls.client.certPath")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.verify_server and self.check_hostname
        if self.verify_server:
            _load_trust(context, "tls.client", self.trust_cert_path, ssl.Purpose.SERVER_AUTH)
        else:
            context.verify_mode = ssl.CERT_NONE
        self._load_own(context)
        return context

    def shown(self) -> ssl.SSLContext | None:
        """Load the own certificate as a server would show it: so it can be judged.

        None without one. Raises TlsError.
        """
        if not self.cert_path:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._load_own(context)
        return context

    def _load_own(self, context: ssl.SSLContext) -> None:
        if self.cert_path:
            key_path = self.key_path or self.cert_path
            _load_chain(context, "tls.client", self.cert_path, key_path, self.key_password)


def _load_chain(
    context: ssl.SSLContext, prefix: str, cert_path: str, key_path: str, key_password: str
) -> None:
    try:
        context.load_cert_chain(cert_path, key_path, lambda: key_password)
    except (OSError, ValueError) as error:  # ValueError: a password longer than 1,024 bytes
        why = str(error)
        if isinstance(error, ssl.SSLError) and error.reason is None:
            why += f": no PEM file, or {prefix}.keyPassword is not the password of the key"
        raise TlsError(
            f"{prefix}.certPath={cert_path!r}, {prefix}.keyPath={key_path!r}: {why}"
        ) from error


def _load_trust(
    context: ssl.SSLContext, prefix: str, trust_cert_path: str, purpose: ssl.Purpose
) -> None:
    try:
        if trust_cert_path:
            context.load_verify_locations(trust_cert_path)
        else:
            context.load_default_certs(purpose)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(f"{prefix}.trustCertPath={trust_cert_path!r}: {error}") from error
