"""The settings that every listening process has: limits of connections, and TLS."""

from typing import Annotated, Literal

from pydantic import Field

from aerobee.remoting.net.limits import KIB, MIB, NetLimits
from aerobee.remoting.net.tls import ClientAuth, TlsMode, TlsSettings
from aerobee.remoting.settings import ServerSettings

_Milliseconds = Annotated[int, Field(gt=0, le=7 * 24 * 3600 * 1000)]


class NetSettings(ServerSettings):
    """Where to listen, what peers may take, and how they may encrypt.

    `remoting/net/limits.py` says what each limit means; the `tls.*` keys are RocketMQ's.
    """

    bind_address: str = "0.0.0.0"
    connections_max: int = Field(default=20_000, ge=1)
    frame_bytes_max: int = Field(
        default=16 * MIB, ge=KIB, le=1024 * MIB, validation_alias="frameMaxLength"
    )
    frame_timeout_ms: _Milliseconds = 60_000
    partial_bytes_max: int = Field(default=256 * MIB, ge=KIB)
    write_bytes_max: int = Field(default=64 * MIB, ge=256 * KIB)
    write_timeout_ms: _Milliseconds = 60_000
    unsent_bytes_max: int = Field(default=512 * MIB, ge=256 * KIB)
    idle_timeout_s: int = Field(
        default=120, ge=1, validation_alias="serverChannelMaxIdleTimeSeconds"
    )
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

    @property
    def net_limits(self) -> NetLimits:
        """What peers may take of this process's memory and time."""
        return NetLimits(
            connections_max=self.connections_max,
            frame_bytes_max=self.frame_bytes_max,
            frame_timeout_s=self.frame_timeout_ms / 1000,
            partial_bytes_max=self.partial_bytes_max,
            write_bytes_max=self.write_bytes_max,
            write_timeout_s=self.write_timeout_ms / 1000,
            unsent_bytes_max=self.unsent_bytes_max,
            idle_timeout_s=self.idle_timeout_s,
            handshake_timeout_s=self.handshake_timeout_ms / 1000,
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
