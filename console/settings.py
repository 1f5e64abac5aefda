"""The settings of `aerobee console`, a process of its own."""

from pydantic import Field

from aerobee.client.settings import ClientSettings
from aerobee.console.roles import BY_WORD, ConsoleRole
from aerobee.remoting.config.console_keys import ConsoleKeys
from aerobee.remoting.config.settings import AtStart
from aerobee.remoting.net.access.credentials import SessionCredentials
from aerobee.remoting.net.settings import CallingSettings


class ConsoleSettings(ConsoleKeys, CallingSettings):
    """What `aerobee console` has beside its log and the keys of the console.

    Of `tls.*` the client's side counts: how brokers are called.
    """

    namesrv_addr: AtStart[str] = "127.0.0.1:9876"
    console_timeout_ms: AtStart[int] = Field(default=2000, ge=100, le=60_000)

    @property
    def role_max(self) -> ConsoleRole:
        """What nobody may exceed."""
        return BY_WORD[self.console_role_max]

    def own_credentials(self) -> SessionCredentials | None:
        """Return with what the console looks for all its viewers, None for their own."""
        user = self.console_user
        return SessionCredentials(user.access_key, user.secret_key) if user is not None else None

    def client(self, credentials: SessionCredentials | None) -> ClientSettings:
        """Return how brokers are asked, and in whose name."""
        return ClientSettings(
            api_timeout_ms=self.console_timeout_ms,
            connect_timeout_ms=self.console_timeout_ms,
            tls=self.calls_tls,
            credentials=credentials,
        )
