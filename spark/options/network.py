"""The options that say which cluster is talked to, and how: those that reads and writes share."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final

from aerobee.spark.errors import OptionError
from aerobee.spark.options import values
from aerobee.spark.options.address import NetworkAddress

if TYPE_CHECKING:
    from aerobee.remoting.net.tls import TlsClientSettings

_TLS: Final[tuple[tuple[str, Callable[[str, str], Any]], ...]] = (
    ("tlsVerifyServer", values.flag),
    ("tlsTrustCertPath", values.text),
    ("tlsCheckHostname", values.flag),
    ("tlsCertPath", values.text),
    ("tlsKeyPath", values.text),
    ("tlsKeyPassword", lambda _, value: value),
)
CONNECTING: Final = (("networkTimeout", values.duration_ms), ("tls", values.flag), *_TLS)
"""Spellings and parsers of what goes with `namesrv`."""


def network_address(given: Collection[str], take: Callable[..., Any]) -> NetworkAddress:
    """The cluster of the option namesrv.

    `given` are the names of options, in lower case; `take` parses the value of one, or returns the
    default behind its name. Raises OptionError.
    """
    namesrv = take("namesrv")
    return NetworkAddress(
        namesrv,
        patience_ms=take("networkTimeout", NetworkAddress(namesrv).patience_ms),
        tls=_tls(given, take),
    )


def _tls(given: Collection[str], take: Callable[..., Any]) -> TlsClientSettings | None:
    named = [name for name, _ in _TLS if name.lower() in given]
    if not take("tls", False):
        if named:
            raise OptionError(f"option {named[0]} goes with tls=true: add that, or leave it out")
        return None
    from aerobee.remoting.net.tls import TlsClientSettings, TlsError

    trust, cert = take("tlsTrustCertPath", ""), take("tlsCertPath", "")
    settings = TlsClientSettings(
        cert_path=cert,
        key_path=take("tlsKeyPath", ""),
        key_password=take("tlsKeyPassword", ""),
        verify_server=take("tlsVerifyServer", bool(trust)),
        trust_cert_path=trust,
        check_hostname=take("tlsCheckHostname", False),
    )
    if not settings.verify_server and (trust or settings.check_hostname):
        other = "tlsTrustCertPath" if trust else "tlsCheckHostname"
        raise OptionError(
            f"option {other} means nothing while the server's certificate is not verified: set"
            " tlsVerifyServer=true, or leave it out"
        )
    if not cert and (settings.key_path or settings.key_password):
        raise OptionError("option tlsCertPath is missing: the key belongs to a certificate")
    try:
        settings.context()
    except TlsError as error:
        raise OptionError(
            f"options tls...: {error}; name PEM files that driver and executors have under this"
            " path"
        ) from error
    return settings
