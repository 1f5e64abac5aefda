"""The options of commands that ask a cluster over TLS: the keys that `broker start` has for it."""

import functools
from collections.abc import Callable
from typing import Any, Final

import click

from aerobee.cli.program import with_options
from aerobee.remoting.net.tls import TlsClientSettings

_FILE: Final = click.Path(exists=True, dir_okay=False)
_OPTIONS: Final = (
    click.option(
        "--tls-enable",
        is_flag=True,
        envvar="AEROBEE_TLS_ENABLE",
        help="Speak TLS with nameservers and brokers.",
    ),
    click.option(
        "--tls-client-auth-server",
        is_flag=True,
        envvar="AEROBEE_TLS_CLIENT_AUTH_SERVER",
        help="Verify their certificates; without it any will do.",
    ),
    click.option(
        "--tls-client-trust-cert-path",
        type=_FILE,
        envvar="AEROBEE_TLS_CLIENT_TRUST_CERT_PATH",
        help="PEM file of the authorities to trust. [default: the system's]",
    ),
    click.option(
        "--tls-client-cert-path",
        type=_FILE,
        envvar="AEROBEE_TLS_CLIENT_CERT_PATH",
        help="PEM file of the own certificate, where they ask for one.",
    ),
    click.option(
        "--tls-client-key-path",
        type=_FILE,
        envvar="AEROBEE_TLS_CLIENT_KEY_PATH",
        help="PEM file of its key.",
    ),
    click.option(
        "--tls-client-key-password",
        envvar="AEROBEE_TLS_CLIENT_KEY_PASSWORD",
        help="Password of the key; better given by AEROBEE_TLS_CLIENT_KEY_PASSWORD.",
    ),
)


def tls_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command and hand it `tls`, None for plain TCP.

    A file that says how to verify or who we are has no meaning without TLS, and is refused then.
    """

    @functools.wraps(command)
    def with_tls(
        *,
        tls_enable: bool,
        tls_client_auth_server: bool,
        tls_client_trust_cert_path: str | None,
        tls_client_cert_path: str | None,
        tls_client_key_path: str | None,
        tls_client_key_password: str | None,
        **others: Any,
    ) -> None:
        tls = TlsClientSettings(
            cert_path=tls_client_cert_path or "",
            key_path=tls_client_key_path or "",
            key_password=tls_client_key_password or "",
            verify_server=tls_client_auth_server,
            trust_cert_path=tls_client_trust_cert_path or "",
        )
        if not tls_enable and tls != TlsClientSettings():
            raise click.UsageError("the options --tls-client-... go with --tls-enable")
        command(tls=tls if tls_enable else None, **others)

    return with_options(with_tls, _OPTIONS)
