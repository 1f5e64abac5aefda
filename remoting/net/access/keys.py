"""The settings of access control that every server has, under RocketMQ's keys (AuthConfig.java)."""

from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeVar

import msgspec
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from aerobee.remoting.bodies import UserInfo
from aerobee.remoting.config.settings import AtStart, Guarded
from aerobee.remoting.net.access.certificates import read_certificate_users
from aerobee.remoting.net.access.credentials import SessionCredentials
from aerobee.remoting.net.access.rules import Rules
from aerobee.remoting.net.settings import NetSettings

_AUTH: Final = "org.apache.rocketmq.auth"
_CLASSES: Final = {
    "authentication_provider": ("authentication.provider.DefaultAuthenticationProvider",),
    "authorization_provider": ("authorization.provider.DefaultAuthorizationProvider",),
    "authentication_metadata_provider": (
        "authentication.provider.LocalAuthenticationMetadataProvider",
    ),
    "authorization_metadata_provider": (
        "authorization.provider.LocalAuthorizationMetadataProvider",
    ),
    "authentication_strategy": (
        "authentication.strategy.StatelessAuthenticationStrategy",
        "authentication.strategy.StatefulAuthenticationStrategy",
    ),
    "authorization_strategy": (
        "authorization.strategy.StatelessAuthorizationStrategy",
        "authorization.strategy.StatefulAuthorizationStrategy",
    ),
}
"""RocketMQ's own classes, whose names stand for what is done here; others cannot be loaded."""

T = TypeVar("T")


def _path_or_none(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip() else value


class AccessKeys(NetSettings):
    """Who must say who he is, and who may do what.

    Strategies: a blank one asks for the signature of all but plain sends and pulls of a connection
    on which their user has signed, and for rights that have passed not again; one that is called
    stateless looks at each request anew.
    """

    authentication_enabled: AtStart[Guarded[bool]] = False
    authorization_enabled: AtStart[Guarded[bool]] = False
    authentication_provider: AtStart[Guarded[str]] = ""
    authorization_provider: AtStart[Guarded[str]] = ""
    authentication_metadata_provider: AtStart[Guarded[str]] = ""
    authorization_metadata_provider: AtStart[Guarded[str]] = ""
    authentication_strategy: AtStart[Guarded[str]] = ""
    authorization_strategy: AtStart[Guarded[str]] = ""
    authentication_whitelist: AtStart[Guarded[str]] = ""
    authorization_whitelist: AtStart[Guarded[str]] = ""
    init_authentication_user: AtStart[Guarded[str]] = ""
    inner_client_authentication_credentials: AtStart[Guarded[str]] = ""
    # ours: "CN:orders=ann;DNS:billing.example.com=bob;CN:*", see certificates.py
    certificate_users: AtStart[Guarded[str]] = ""
    # ours: who changed what, see audit.py; None notes nothing
    audit_file: AtStart[Guarded[Annotated[Path | None, BeforeValidator(_path_or_none)]]] = None
    audit_file_bytes_max: AtStart[Guarded[int]] = Field(default=64 << 20, ge=64 << 10)
    audit_files_max: AtStart[Guarded[int]] = Field(default=10, ge=2, le=1000)

    @field_validator(*_CLASSES)
    @classmethod
    def _a_known_class(cls, value: str, info: ValidationInfo) -> str:
        """Take the names of RocketMQ's classes: no other code is loaded."""
        known = [f"{_AUTH}.{name}" for name in _CLASSES[str(info.field_name)]]
        if value and value not in known:
            raise ValueError(f"allowed: nothing, or {' or '.join(known)}; no other class is loaded")
        return value

    @field_validator("authentication_whitelist", "authorization_whitelist")
    @classmethod
    def _codes(cls, value: str) -> str:
        _codes_of(value)
        return value

    @field_validator("init_authentication_user")
    @classmethod
    def _a_user(cls, value: str) -> str:
        if value.strip():
            info = _read(value, UserInfo, '{"username":"...","password":"..."}')
            if not (info.username.strip() and (info.password or "").strip()):
                raise ValueError("allowed: a user with a name and a password")
        return value

    @field_validator("inner_client_authentication_credentials")
    @classmethod
    def _credentials(cls, value: str) -> str:
        if value.strip():
            read = _read(value, SessionCredentials, '{"accessKey":"...","secretKey":"..."}')
            if not (read.access_key.strip() and read.secret_key.strip()):
                raise ValueError("allowed: an accessKey and a secretKey")
        return value

    @field_validator("certificate_users")
    @classmethod
    def _users_of_certificates(cls, value: str) -> str:
        try:
            read_certificate_users(value)
        except ValueError as error:
            raise ValueError(
                "allowed: CN:name=user, DNS:name=user, URI:name=user, email:name=user, or CN:* and"
                f" its like where the name is the user, joined by ; ({error})"
            ) from None
        return value

    @model_validator(mode="after")
    def _certificates_are_verified(self) -> Self:
        if self.certificate_users.strip() and not self.tls_server_auth_client:
            raise ValueError(
                "certificateUsers means nothing while no certificate is verified: set"
                " tls.server.authClient=true, tls.server.trustCertPath and"
                " tls.server.need.client.auth"
            )
        return self

    @property
    def controls_access(self) -> bool:
        """Whether users are kept: they are asked for, or are to be made before they are."""
        return (
            self.authentication_enabled
            or self.authorization_enabled
            or bool(self.authentication_metadata_provider)
            or bool(self.authorization_metadata_provider)
        )

    @property
    def access_rules(self) -> Rules:
        """What is asked of requests."""
        return Rules(
            authenticates=self.authentication_enabled,
            authorizes=self.authorization_enabled,
            open_codes=_codes_of(self.authentication_whitelist),
            free_codes=_codes_of(self.authorization_whitelist),
            certificate_users=read_certificate_users(self.certificate_users),
        )

    @property
    def each_is_asked(self) -> bool:
        """Whether no request may pass because one like it has passed."""
        strategies = self.authentication_strategy, self.authorization_strategy
        return any("Stateless" in strategy for strategy in strategies)

    @property
    def first_users(self) -> tuple[UserInfo, ...]:
        """The super users that there are in any case: an operator, and this server itself."""
        users: list[UserInfo] = []
        if self.init_authentication_user.strip():
            user = _read(self.init_authentication_user, UserInfo, "")
            users.append(
                UserInfo(username=user.username, password=user.password, user_type="Super")
            )
        if (own := self.credentials) is not None:
            users.append(
                UserInfo(username=own.access_key, password=own.secret_key, user_type="Super")
            )
        return tuple(users)

    @property
    def credentials(self) -> SessionCredentials | None:
        """What this server signs with when it calls others; None: it does not sign."""
        text = self.inner_client_authentication_credentials
        return _read(text, SessionCredentials, "") if text.strip() else None


def _read(text: str, kind: type[T], like: str) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeError):
        raise ValueError(f"allowed: JSON like {like}") from None


def _codes_of(text: str) -> frozenset[int]:
    """Read request codes; names of gRPC's messages, which have dots, are of no server here."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    wrong = [word for word in words if not (word.isdecimal() or "." in word)]
    if wrong:
        raise ValueError(f"allowed: request codes, joined by commas, and {wrong[0]!r} is none")
    return frozenset(int(word) for word in words if word.isdecimal())
