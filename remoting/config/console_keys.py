"""The web console's settings, which a process of its own and a nameserver have alike."""

from typing import Final, Literal

import msgspec
from pydantic import Field, field_validator

from aerobee.remoting.config.settings import AtStart, Guarded, ServerSettings

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class ConsoleUser(msgspec.Struct, frozen=True, rename="camel"):
    """As whom a console looks: a user of the brokers."""

    access_key: str
    secret_key: str


class ConsoleKeys(ServerSettings):
    """Where the console listens, and whom it lets in.

    Users of the cluster's access control log in with their own secrets. Beside them, who knows the
    `consolePassword` is the user `admin`; without one, and without credentials, whoever comes from
    this machine to a console that listens on loopback alone is let in, and can do what anybody can
    who reaches the brokers from here.
    """

    console_host: AtStart[Guarded[str]] = "127.0.0.1"
    console_port: AtStart[int] = Field(default=8082, ge=0, le=65535)  # 0 takes a free one
    console_password: AtStart[Guarded[str]] = ""
    # {"accessKey":"...","secretKey":"..."}: with what the console looks for all its viewers
    console_credentials: AtStart[Guarded[str]] = ""
    console_role_max: AtStart[Literal["reader", "operator", "admin"]] = "admin"
    console_behind_tls: AtStart[bool] = False  # a proxy encrypts: cookies are for https alone
    console_tls_cert_path: AtStart[Guarded[str]] = ""
    console_tls_key_path: AtStart[Guarded[str]] = ""

    @field_validator("console_credentials")
    @classmethod
    def _a_user_of_brokers(cls, value: str) -> str:
        if value.strip():
            _user_of(value)
        return value

    @property
    def is_on_loopback(self) -> bool:
        """Whether nobody but this machine can reach it."""
        return self.console_host in LOOPBACK

    @property
    def has_tls(self) -> bool:
        """Whether browsers come by https, to the console or to a proxy before it."""
        return self.console_behind_tls or bool(self.console_tls_cert_path)

    @property
    def console_user(self) -> ConsoleUser | None:
        """As whom the console looks for its viewers; None where each looks in his own name."""
        return _user_of(self.console_credentials) if self.console_credentials.strip() else None


def _user_of(text: str) -> ConsoleUser:
    try:
        found = msgspec.json.decode(text, type=ConsoleUser)
    except (msgspec.MsgspecError, UnicodeError):
        found = None
    if found is None or not (found.access_key.strip() and found.secret_key.strip()):
        raise ValueError('allowed: JSON like {"accessKey":"...","secretKey":"..."}')
    return found
