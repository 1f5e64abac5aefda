"""The settings that every listening process has: limits of connections, and TLS."""

from dataclasses import fields
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from aerobee.remoting.net.limits import KIB, MIB, NetLimits
from aerobee.remoting.net.tls import ClientAuth, TlsMode, TlsSettings
from aerobee.remoting.settings import ServerSettings

_NAMES: Final = tuple(each.name for each in fields(NetLimits))
_Milliseconds = Annotated[int, Field(gt=0, le=7 * 24 * 3600 * 1000)]


class NetSettings(ServerSettings):
    """Where to listen, what peers may take, and how they may encrypt.

    `NetLimits` says what each limit means, under the same name; a time that it has in seconds is
    set in milliseconds, but for the idle time-out. The `tls.*` keys are RocketMQ's.
    """

    bind_address: str = "0.0.0.0"
    connections_max: int = Field(default=20_000, ge=1)
    accepts_per_turn_max: int = Field(default=128, ge=1)
    accept_pause_ms: _Milliseconds = 500
    frame_bytes_max: int = Field(
        default=16 * MIB, ge=KIB, le=1024 * MIB, validation_alias="frameMaxLength"
    )
    frame_timeout_ms: _Milliseconds = 60_000
    frames_per_turn_max: int = Field(default=128, ge=1)
    partial_bytes_max: int = Field(default=256 * MIB, ge=KIB)
    write_pause_bytes: int = Field(default=256 * KIB, ge=KIB)
    write_resume_bytes: int = Field(default=64 * KIB, ge=0)
    write_bytes_max: int = Field(default=64 * MIB, ge=256 * KIB)
    write_timeout_ms: _Milliseconds = 60_000
    unsent_bytes_max: int = Field(default=512 * MIB, ge=256 * KIB)
    reply_bytes_per_turn_max: int = Field(default=1 * MIB, ge=KIB)
    waiting_requests_max: int = Field(default=1024, ge=1)
    waiting_bytes_max: int = Field(default=32 * MIB, ge=KIB)
    waiting_total_bytes_max: int = Field(default=256 * MIB, ge=KIB)
    calls_max: int = Field(default=65_536, ge=1)
    connect_timeout_ms: _Milliseconds = Field(
        default=3_000, validation_alias="connectTimeoutMillis"
    )
    close_timeout_ms: _Milliseconds = 5_000
    idle_timeout_s: int = Field(
        default=120, ge=1, validation_alias="serverChannelMaxIdleTimeSeconds"
    )
    sweep_interval_ms: _Milliseconds = 1_000
    handshake_timeout_ms: _Milliseconds = 10_000
    tls_server_mode: Literal["disabled", "permissive", "enforcing"] = Field(
        default="permissive", validation_alias="tls.server.mode"
    )  # without a certificate permissive is disabled
    tls_server_cert_path: str = Field(default="", validation_alias="tls.server.certPath")
    tls_server_key_path: str = Field(default="", validation_alias="tls.server.keyPath")
    tls_server_key_password: str = Field(default="", validation_alias="tls.server.keyPassword")
    tls_server_trust_cert_path: str = Field(default="", validation_alias="tls.server.trustCertPath")
    tls_server_auth_client: bool = Field(default=False, validation_alias="tls.server.authClient")
    tls_server_need_client_auth: Literal["none", "optional", "require"] = Field(
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
        )
