"""What queues, exchanges and groups of Celery are called in RocketMQ."""

import hashlib
import string
from typing import Final

from aerobee.client.message import GROUP_CHARACTERS_MAX
from aerobee.remoting.words import RETRY_PREFIX

GROUP_PREFIX: Final = "kombu_"
EXCHANGE_PREFIX: Final = "kombu_exchange_"
NAME_CHARACTERS_MAX: Final = GROUP_CHARACTERS_MAX - len(RETRY_PREFIX) - len(EXCHANGE_PREFIX)
"""So that the retry topic that brokers make for each group has a name that they take."""
DIGEST_CHARACTERS: Final = 32

_ALLOWED: Final = frozenset(string.ascii_letters + string.digits + "-_")


class Names:
    """Names of one virtual host and prefix; different names stay different.

    Letters, digits, `-` and `_` stay as they are; any other byte of a name's UTF-8 is written as
    `%2E`, in upper case. A name that gets too long ends with a digest in place of its rest.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def topic(self, queue: str) -> str:
        """Return the topic that is a queue."""
        return _fitting(quoted(self._prefix + queue))

    def group(self, queue: str) -> str:
        """Return the group whose members share a queue."""
        return GROUP_PREFIX + self.topic(queue)

    def exchange(self, exchange: str) -> str:
        """Return the topic that carries what is published to an exchange, for all who listen."""
        return EXCHANGE_PREFIX + _fitting(quoted(self._prefix + exchange))


def quoted(name: str) -> str:
    """Return a name with what RocketMQ does not allow written as `%` and two digits."""
    return "".join(
        character
        if character in _ALLOWED
        else "".join(f"%{byte:02X}" for byte in character.encode())
        for character in name
    )


def _fitting(name: str) -> str:
    if len(name) <= NAME_CHARACTERS_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:DIGEST_CHARACTERS]
    return f"{name[: NAME_CHARACTERS_MAX - DIGEST_CHARACTERS - 1]}-{digest}"
