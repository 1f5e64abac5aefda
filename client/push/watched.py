"""Hooks around what gives messages back, where a consumer has such hooks."""

from aerobee.client.hooks import Hooks
from aerobee.client.push.failures import Failures
from aerobee.client.received import ReceivedMessage


class WatchedFailures:
    """Does what other failures do, between the hooks of their consumer."""

    def __init__(self, failures: Failures, group: str, hooks: Hooks) -> None:
        self.times_max = failures.times_max
        self._failures = failures
        self._group = group
        self._hooks = hooks

    async def give_back(
        self, messages: list[ReceivedMessage], delay_level: int = 0
    ) -> list[ReceivedMessage]:
        """Give messages back, in one call of the hooks; return those that no broker has taken."""
        return await self._hooks.settled(
            "nack",
            self._group,
            messages[0].queue,
            messages,
            self._failures.give_back(messages, delay_level),
            failed=bool,
        )

    async def give_up(self, message: ReceivedMessage) -> bool:
        """Send a copy to the retry topic; False if that failed."""
        return await self._hooks.settled(
            "nack",
            self._group,
            message.queue,
            [message],
            self._failures.give_up(message),
            failed=_is_false,
        )

    async def put_away(self, message: ReceivedMessage) -> bool:
        """Put a message that cannot be read to the dead letters; False if that failed."""
        return await self._hooks.settled(
            "nack",
            self._group,
            message.queue,
            [message],
            self._failures.put_away(message),
            failed=_is_false,
        )


def _is_false(answer: bool) -> bool:
    return not answer
