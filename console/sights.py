"""One sight of the cluster for each user whose secret is known, closed when he has gone."""

from collections.abc import Iterable

from aerobee.console.reach import ViewerAdmin
from aerobee.console.settings import ConsoleSettings
from aerobee.console.sight import Sight
from aerobee.remoting.net.access.credentials import SessionCredentials


class Sights:
    """The sights of a console: `shared` is asked in the console's own name, if it has one."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        self.own = settings.own_credentials()
        self._by_user: dict[SessionCredentials | None, Sight] = {}

    def reading(self, credentials: SessionCredentials | None) -> Sight:
        """Return what a viewer looks at: what the console may see, else what he himself may."""
        return self.of(self.own if self.own is not None else credentials)

    def of(self, credentials: SessionCredentials | None) -> Sight:
        """Return the sight of one user; None is who signs nothing."""
        sight = self._by_user.get(credentials)
        if sight is None:
            sight = Sight(self.admin(credentials))
            self._by_user[credentials] = sight
        return sight

    def admin(self, credentials: SessionCredentials | None) -> ViewerAdmin:
        """Make a client that asks in a user's name, for whoever closes it."""
        return ViewerAdmin(self._settings.namesrv_addr, self._settings.client(credentials))

    def forget(self) -> None:
        """Show nothing of before a change, to anybody."""
        for sight in self._by_user.values():
            sight.forget()

    async def keep(self, users: Iterable[SessionCredentials | None]) -> None:
        """Close the sights of those who are not among `users`, and forget their secrets."""
        kept = {self.own, None, *users}
        for credentials in [each for each in self._by_user if each not in kept]:
            if (sight := self._by_user.pop(credentials, None)) is not None:
                await sight.close()

    async def close(self) -> None:
        """Close all."""
        while self._by_user:
            await self._by_user.popitem()[1].close()
