"""Addresses whose requests are not asked who they are from: the white lists of RocketMQ 4.x.

They come from its `plain_acl.yml` alone. An address proves nothing about who sends, so whoever has
a signature that is right is served as its user, and nobody else changes users and policies.
"""

from collections.abc import Iterable
from typing import Final

from aerobee.remoting.net.access.policies import Network, address, network

EVERYBODY: Final = frozenset({"0.0.0.0/0", "::/0"})
ANSWERS_MAX: Final = 10_000
"""Kept of which address is listed; a peer that comes from ever new ones has the memory of these."""


class WhiteAddresses:
    """Who passes unasked: from some networks everybody, from others who says who he is."""

    def __init__(self) -> None:
        self.everywhere: tuple[str, ...] = ()
        self.of_users: dict[str, tuple[str, ...]] = {}
        self._networks: dict[str, tuple[Network, ...]] = {}
        self._answers: dict[tuple[str, str], bool] = {}

    def __bool__(self) -> bool:
        return bool(self.everywhere or self.of_users)

    def put(self, everywhere: Iterable[str], of_users: dict[str, tuple[str, ...]]) -> None:
        """List these and no others; raises ValueError for what is no network."""
        found = {name: tuple(map(network, texts)) for name, texts in of_users.items() if texts}
        found[""] = tuple(map(network, everywhere))
        self._networks = found
        self.everywhere = tuple(everywhere)
        self.of_users = {name: texts for name, texts in of_users.items() if texts}
        self._answers.clear()

    def forget(self, name: str) -> None:
        """List no addresses of a user any more."""
        if self.of_users.pop(name, None) is not None:
            del self._networks[name]
            self._answers.clear()

    def has(self, name: str, host: str) -> bool:
        """Whether a request from an address passes, which says that it is a user's, or nobody's."""
        if not self:
            return False
        key = (name if name in self.of_users else ""), host
        if key not in self._answers:
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            found = address(host)
            listed = *self._networks.get("", ()), *self._networks.get(key[0], ())
            self._answers[key] = any(found in each for each in listed)
        return self._answers[key]
