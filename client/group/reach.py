"""Whether a group's member reaches who it needs, and what its log says when it does not."""

import asyncio
import logging
from collections.abc import Container
from typing import Final

from aerobee.client.cluster.outages import Outages
from aerobee.client.errors import RouteMissing
from aerobee.client.group.shares import RouteAwaited
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.trouble import consuming_from
from aerobee.remoting.errors import AerobeeError, Unavailable
from aerobee.remoting.words import RETRY_PREFIX

log = logging.getLogger(__name__)

REASONS_MAX: Final = 20  # that are told of one topic before it is shared


class Reach:
    """What keeps one member from its share of each topic.

    It is told once when that begins, counted each half minute, and told when it is over, by
    `outages`. A topic that does not exist yet is no failure to reach anybody: it is waited for.
    """

    def __init__(self, group: str, outages: Outages) -> None:
        self.problems: dict[str, AerobeeError] = {}  # by topic, of the last round
        self._group = group
        self._outages = outages
        self._consuming = f"consuming in group {group!r}"
        self._refusals: dict[str, set[str]] = {}  # the reasons that were told, by topic
        self._first = asyncio.Event()  # everybody that is needed was reached once

    async def wait(self) -> None:
        """Return when nameservers knew of each topic, or of none, and its brokers have answered."""
        await self._first.wait()

    @property
    def begun(self) -> bool:
        """Whether everybody that is needed has answered once."""
        return self._first.is_set()

    def why(self) -> str:
        """Say what failed last, of one of the topics; empty if nothing did."""
        return next(map(str, self._unreached()), "")

    def judge(self, topics: Container[str]) -> None:
        """Tell what a round has come to, in which the shares of these topics were looked for."""
        for topic in [each for each in self.problems if each not in topics]:
            del self.problems[topic]
            self._outages.forget(self._finding(topic))
            self._outages.forget(self._sharing(topic))
            self._refusals.pop(topic, None)
        if not self._unreached():
            self._outages.over(self._consuming)
            if not any(isinstance(each, RouteAwaited) for each in self.problems.values()):
                self._first.set()

    def not_shared(self, topic: str, error: AerobeeError, *, owned: bool) -> None:
        """Note why the share of a topic is not known; with queues `owned` these are read on."""
        self.problems[topic] = error
        if isinstance(error, RouteMissing):
            self._outages.failed(self._finding(topic), error)
        elif self._is_told_elsewhere(topic, error, owned=owned):
            log.debug("share unknown group=%s topic=%s error=%s", self._group, topic, error)
        elif isinstance(error, Unavailable):
            self._outages.failed(self._consuming, error)
        else:
            self._tell_refusal(topic, str(error))

    def _tell_refusal(self, topic: str, why: str) -> None:
        """Tell why a share cannot be had though somebody answers; each reason is news."""
        said, what = self._refusals.setdefault(topic, set()), self._sharing(topic)
        if why not in said and len(said) < REASONS_MAX:
            said.add(why)
            self._outages.forget(what)
        self._outages.failed(what, why)

    def shared(self, topic: str) -> None:
        """The share of a topic is known."""
        if self.problems.pop(topic, None) is not None:
            self._outages.over(self._finding(topic))
            self._outages.over(self._sharing(topic))

    def not_taken(self, queue: MessageQueue, error: AerobeeError) -> None:
        """A queue that is ours cannot be begun."""
        self._outages.failed(consuming_from(queue.broker_name, self._group), error)

    def taken(self, queue: MessageQueue) -> None:
        """It is begun."""
        self._outages.over(consuming_from(queue.broker_name, self._group))

    def _finding(self, topic: str) -> str:
        return f"finding topic {topic!r} for group {self._group!r}"

    def _sharing(self, topic: str) -> str:
        return f"sharing topic {topic!r} in group {self._group!r}"

    def _is_told_elsewhere(self, topic: str, error: AerobeeError, *, owned: bool) -> bool:
        """Whether pulls tell of it, another topic does, or there is nothing to tell yet."""
        silent = owned and isinstance(error, Unavailable)
        return silent or isinstance(error, RouteAwaited) or topic.startswith(RETRY_PREFIX)

    def _unreached(self) -> list[AerobeeError]:
        """What failed, of the topics that somebody subscribed, but for those that do not exist."""
        return [
            error
            for topic, error in self.problems.items()
            if not isinstance(error, (RouteMissing, RouteAwaited))
            and not topic.startswith(RETRY_PREFIX)
        ]
