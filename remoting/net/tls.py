"""TLS as RocketMQ configures it: three server modes on one port, and certificates by file name.

The names of the `tls.*` properties and their meaning are those of TlsSystemConfig.java and
TlsHelper.java. Two things differ. There is no test mode: a server without a certificate serves
plain connections only, it does not invent a certificate. And a client certificate is asked for
only to verify it: Java can be told to accept any.
"""

import ssl
from dataclasses import dataclass
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
    key_password: str = ""
    client_auth: ClientAuth = ClientAuth.NONE
    verify_client: bool = False
    trust_cert_path: str = ""

    def context(self) -> ssl.SSLContext | None:
        """Load the certificate; None when TLS is not served. Raises TlsError."""
        if self.mode is TlsMode.DISABLED:
            return None
        if not self.cert_path or not self.key_path:
            if self.mode is TlsMode.ENFORCING:
                raise TlsError(
                    "tls.server.mode=enforcing needs tls.server.certPath and tls.server.keyPath"
                )
            return None
        if self.client_auth is ClientAuth.REQUIRE and not self.verify_client:
            raise TlsError(
                "tls.server.need.client.auth=require needs tls.server.authClient=true"
                " and tls.server.trustCertPath"
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
    key_password: str = ""
    verify_server: bool = False
    trust_cert_path: str = ""
    check_hostname: bool = False  # RocketMQ never does; brokers are most often known by address

    def context(self) -> ssl.SSLContext:
        """Load trust and, if there is one, the own certificate. Raises TlsError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.verify_server and self.check_hostname
        if self.verify_server:
            _load_trust(context, "tls.client", self.trust_cert_path, ssl.Purpose.SERVER_AUTH)
        else:
            context.verify_mode = ssl.CERT_NONE
        if self.cert_path:
            key_path = self.key_path or self.cert_path
            _load_chain(context, "tls.client", self.cert_path, key_path, self.key_password)
        return context


def _load_chain(
    context: ssl.SSLContext, prefix: str, cert_path: str, key_path: str, key_password: str
) -> None:
    try:
        context.load_cert_chain(cert_path, key_path, lambda: key_password)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(
            f"{prefix}.certPath={cert_path!r}, {prefix}.keyPath={key_path!r}: {error}"
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
