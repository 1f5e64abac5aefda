"""The settings that every listening process has: its log, limits of connections, and TLS."""

import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, get_args

from pydantic import BeforeValidator, Field, field_validator, model_validator

from aerobee.remoting.config.settings import AtStart, Guarded, ServerSettings
from aerobee.remoting.net.limits import KIB, MIB, NetLimits
from aerobee.remoting.net.tls import ClientAuth, TlsClientSettings, TlsMode, TlsSettings

_NAMES: Final = NetLimits.__struct_fields__
_Milliseconds = Annotated[int, Field(gt=0, le=7 * 24 * 3600 * 1000)]
_MaybeBool = Annotated[bool | None, BeforeValidator(lambda value: None if value == "" else value)]
_LIMITS: Final = NetLimits()  # the defaults
_Level: TypeAlias = Literal["DEBUG", "INFO", "WARNING", "ERROR"]
_PART: Final = re.compile(r"[a-z_]+(\.[a-z_0-9]+)*")


def _path_or_none(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip() else value


def _levels(text: str) -> dict[str, str]:
    """Read `part=LEVEL;part=LEVEL`."""
    pairs = (part.partition("=") for part in filter(None, map(str.strip, text.split(";"))))
    return {part.strip().removeprefix("aerobee."): level.strip() for part, _, level in pairs}


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


class LogSettings(ServerSettings):
    """What is logged, how, and where to; all but RocketMQ's, whose logs have files of their own."""

    log_level: _Level = "INFO"
    log_levels: str = ""  # of parts: "broker.sends=DEBUG;storage=WARNING"
    log_format: AtStart[Literal["text", "json"]] = "text"
    # None is standard error
    log_file: AtStart[Guarded[Annotated[Path | None, BeforeValidator(_path_or_none)]]] = None
    log_file_bytes_max: AtStart[int] = Field(default=128 * MIB, ge=64 * KIB)
    log_files_max: AtStart[int] = Field(default=10, ge=2, le=1000)

    @field_validator("log_levels")
    @classmethod
    def _parts(cls, value: str) -> str:
        for part, level in _levels(value).items():
            if not _PART.fullmatch(part) or level not in get_args(_Level):
                raise ValueError(
                    "allowed: part=LEVEL joined by ;, like broker.sends=DEBUG, with DEBUG, INFO,"
                    " WARNING or ERROR"
                )
        return value

    @property
    def levels_of_parts(self) -> dict[str, str]:
        """The levels of `logLevels`, by the names of modules and rooms."""
        return _levels(self.log_levels)


class NetSettings(LogSettings):
    """Where to listen, what peers may take, and how they may encrypt.

    `NetLimits` says what each limit means, under the same name; a time that it has in seconds is
    set in milliseconds, but for the idle time-out; it has the defaults, too. The `tls.*` keys are
    RocketMQ's.
    """

    bind_address: AtStart[Guarded[str]] = "0.0.0.0"
    connections_max: AtStart[int] = Field(default=_LIMITS.connections_max, ge=1)
    accepts_per_turn_max: AtStart[int] = Field(default=_LIMITS.accepts_per_turn_max, ge=1)
    accept_pause_ms: AtStart[_Milliseconds] = _ms(_LIMITS.accept_pause_s)
    frame_bytes_max: AtStart[int] = Field(
        default=_LIMITS.frame_bytes_max, ge=KIB, le=1024 * MIB, validation_alias="frameMaxLength"
    )
    frame_timeout_ms: AtStart[_Milliseconds] = _ms(_LIMITS.frame_timeout_s)
    frames_per_turn_max: AtStart[int] = Field(default=_LIMITS.frames_per_turn_max, ge=1)
    partial_bytes_max: AtStart[int] = Field(default=_LIMITS.partial_bytes_max, ge=KIB)
    write_pause_bytes: AtStart[int] = Field(
        default=_LIMITS.write_pause_bytes, ge=KIB, le=1024 * MIB
    )  # uvloop takes 31 bits
    write_resume_bytes: AtStart[int] = Field(default=_LIMITS.write_resume_bytes, ge=0)
    write_bytes_max: AtStart[int] = Field(default=_LIMITS.write_bytes_max, ge=256 * KIB)
    write_timeout_ms: AtStart[_Milliseconds] = _ms(_LIMITS.write_timeout_s)
    unsent_bytes_max: AtStart[int] = Field(default=_LIMITS.unsent_bytes_max, ge=256 * KIB)
    reply_bytes_per_turn_max: AtStart[int] = Field(default=_LIMITS.reply_bytes_per_turn_max, ge=KIB)
    waiting_requests_max: AtStart[int] = Field(default=_LIMITS.waiting_requests_max, ge=1)
    waiting_bytes_max: AtStart[int] = Field(default=_LIMITS.waiting_bytes_max, ge=KIB)
    waiting_total_bytes_max: AtStart[int] = Field(default=_LIMITS.waiting_total_bytes_max, ge=KIB)
    calls_max: AtStart[int] = Field(default=_LIMITS.calls_max, ge=1)
    connect_timeout_ms: AtStart[_Milliseconds] = Field(
        default=_ms(_LIMITS.connect_timeout_s), validation_alias="connectTimeoutMillis"
    )
    close_timeout_ms: AtStart[_Milliseconds] = _ms(_LIMITS.close_timeout_s)
    idle_timeout_s: AtStart[int] = Field(
        default=int(_LIMITS.idle_timeout_s),
        ge=1,
        validation_alias="serverChannelMaxIdleTimeSeconds",
    )
    handshakes_max: AtStart[int] = Field(default=_LIMITS.handshakes_max, ge=1)
    sweep_interval_ms: AtStart[_Milliseconds] = _ms(_LIMITS.sweep_interval_s)
    handshake_timeout_ms: AtStart[_Milliseconds] = _ms(_LIMITS.handshake_timeout_s)
    tls_server_mode: AtStart[Guarded[Literal["disabled", "permissive", "enforcing"]]] = Field(
        default="permissive", validation_alias="tls.server.mode"
    )
    tls_test_mode_enable: AtStart[Guarded[bool]] = Field(
        default=True, validation_alias="tls.test.mode.enable"
    )  # permissive without a certificate makes one when a client asks for TLS
    tls_server_cert_path: AtStart[Guarded[str]] = Field(
        default="", validation_alias="tls.server.certPath"
    )
    tls_server_key_path: AtStart[Guarded[str]] = Field(
        default="", validation_alias="tls.server.keyPath"
    )
    tls_server_key_password: AtStart[Guarded[str]] = Field(
        default="", validation_alias="tls.server.keyPassword"
    )
    tls_server_trust_cert_path: AtStart[Guarded[str]] = Field(
        default="", validation_alias="tls.server.trustCertPath"
    )
    tls_server_auth_client: AtStart[Guarded[bool]] = Field(
        default=False, validation_alias="tls.server.authClient"
    )
    tls_server_need_client_auth: AtStart[Guarded[Literal["none", "optional", "require"]]] = Field(
        default="none", validation_alias="tls.server.need.client.auth"
    )

    @model_validator(mode="after")
    def _resume_below_pause(self) -> Self:
        if self.write_resume_bytes > self.write_pause_bytes:
            raise ValueError(
                f"writeResumeBytes={self.write_resume_bytes} must not be more than"
                f" writePauseBytes={self.write_pause_bytes}"
            )
        return self

    @property
    def net_limits(self) -> NetLimits:
        """What peers may take of this process's memory and time."""
        return NetLimits(
            **{name: getattr(self, name) for name in _NAMES if name in type(self).model_fields},
            **{
                name: getattr(self, f"{name.removesuffix('_s')}_ms") / 1000
                for name in _NAMES
                if name not in type(self).model_fields
            },
        )

    @property
    def tls(self) -> TlsSettings:
        """How peers may encrypt."""
        return TlsSettings(
            mode=TlsMode(self.tls_server_mode),
            cert_path=self.tls_server_cert_path,
            key_path=self.tls_server_key_path,
            key_password=self.tls_server_key_password,
            client_auth=ClientAuth(self.tls_server_need_client_auth),
            verify_client=self.tls_server_auth_client,
            trust_cert_path=self.tls_server_trust_cert_path,
            test_mode=self.tls_test_mode_enable,
        )


class CallingSettings(NetSettings):
    """Settings of a server that calls others, too: how it encrypts to them (`tls.client.*`).

    Where `tls.enable` is not set, a server that enforces TLS uses it (NettyClientConfig.java).
    Without `tls.client.authServer` any certificate will do.
    """

    tls_enable: AtStart[Guarded[_MaybeBool]] = Field(default=None, validation_alias="tls.enable")
    tls_client_cert_path: AtStart[Guarded[str]] = Field(
        default="", validation_alias="tls.client.certPath"
    )
    tls_client_key_path: AtStart[Guarded[str]] = Field(
        default="", validation_alias="tls.client.keyPath"
    )
    tls_client_key_password: AtStart[Guarded[str]] = Field(
        default="", validation_alias="tls.client.keyPassword"
    )
    tls_client_auth_server: AtStart[Guarded[bool]] = Field(
        default=False, validation_alias="tls.client.authServer"
    )
    tls_client_trust_cert_path: AtStart[Guarded[str]] = Field(
        default="", validation_alias="tls.client.trustCertPath"
    )

    @model_validator(mode="after")
    def _client_keys_have_a_meaning(self) -> Self:
        if self.calls_tls is not None:
            return self
        for key, value in (
            ("tls.client.authServer", self.tls_client_auth_server),
            ("tls.client.trustCertPath", self.tls_client_trust_cert_path),
            ("tls.client.certPath", self.tls_client_cert_path),
            ("tls.client.keyPath", self.tls_client_key_path),
        ):
            if value:
                raise ValueError(
                    f"{key} means nothing while calls are not encrypted: set tls.enable=true,"
                    " or leave it out"
                )
        return self

    @property
    def calls_tls(self) -> TlsClientSettings | None:
        """How calls of ours are encrypted; None for plain TCP."""
        enforcing = self.tls_server_mode == "enforcing"
        if not (enforcing if self.tls_enable is None else self.tls_enable):
            return None
        return TlsClientSettings(
            cert_path=self.tls_client_cert_path,
            key_path=self.tls_client_key_path,
            key_password=self.tls_client_key_password,
            verify_server=self.tls_client_auth_server,
            trust_cert_path=self.tls_client_trust_cert_path,
        )
