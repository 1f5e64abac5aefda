"""New topics: on disk and known to every nameserver before a message of theirs is stored."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from aerobee.broker.cluster.registration import Registrar
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError


class Announcements:
    """The topics on their way to the disk and to the nameservers."""

    def __init__(self, registration: Registrar) -> None:
        self._registration = registration
        self._under_way: dict[str, asyncio.Future[None]] = {}

    def announce(self, *topics: TopicConfig) -> asyncio.Future[None]:
        """Have topics that were made or changed kept and announced; `until_known` waits for that.

        From this call on they are under way, each with its newest announcement, which covers those
        before it; one that failed stays there.
        """
        announcement = asyncio.ensure_future(self._registration.announce(*topics))
        names = [topic.topic_name for topic in topics]
        under_way = self._under_way
        under_way.update(dict.fromkeys(names, announcement))

        def forget(done: asyncio.Future[None]) -> None:
            if done.cancelled() or done.exception() is not None:
                return
            for name in names:
                if under_way.get(name) is done:
                    del under_way[name]

        announcement.add_done_callback(forget)
        return announcement

    def until_known(
        self, topic: TopicConfig, *, is_new: bool = False
    ) -> Callable[[], Coroutine[Any, Any, None]] | None:
        """Return what a message of the topic has to wait for, None where all know the topic.

        One that `is_new` is announced, and what failed begins anew.
        """
        last = self._under_way.get(topic.topic_name)
        if is_new or (last is not None and last.done()):
            last = self.announce(topic)
        return None if last is None else partial(until_known, last)

    def drop(self, topic: str) -> None:
        """Let nobody wait for a topic that was deleted."""
        self._under_way.pop(topic, None)

    def __len__(self) -> int:
        return len(self._under_way)


async def until_known(announcement: asyncio.Future[None]) -> None:
    """Return when all topics of an announcement are known; others may wait for the same one.

    Raises RequestError (SERVICE_NOT_AVAILABLE) where they cannot be kept.
    """
    try:
        await asyncio.shield(announcement)
    except OSError as error:
        remark = f"the topic cannot be kept: {error}"
        raise RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, remark) from error
