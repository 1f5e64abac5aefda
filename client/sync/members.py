"""What the consumers that share queues have in common."""

from abc import abstractmethod
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from aerobee.client.errors import function, whole_number
from aerobee.client.group.group_member import GroupMember
from aerobee.client.group.ownership import QueuesChanged
from aerobee.client.message import MessageQueue
from aerobee.client.sync.handler_threads import DaemonThreads
from aerobee.client.sync.lifetime import BlockingClient
from aerobee.remoting.bodies import ConsumerRunningInfo

M = TypeVar("M", bound=GroupMember)


class BlockingMember(BlockingClient[M]):
    """A consumer of a group, whose callbacks run in one thread, in their order."""

    def __init__(self, inner: M) -> None:
        super().__init__(inner, inner.group)
        self._callbacks = DaemonThreads(1, f"{inner.group}-callback")

    def start(self, timeout_ms: int | None = None) -> None:
        """Connect; with subscriptions, join the group: messages flow when the queues are shared.

        A cluster that cannot be reached raises nothing: it is tried again until it can, and the log
        says so once, each half minute, and when it is over. With `timeout_ms`, or
        `start_timeout_ms` of the settings, it raises Unavailable after so long; a topic that does
        not exist yet is no reason. Raises InvalidUse without subscription where it needs one, or
        when started already; BrokerRefused for an SQL92 expression that the broker cannot read.
        """
        if timeout_ms is not None:
            whole_number("timeout_ms", timeout_ms)
        self._start(partial(self._begin, timeout_ms))

    @abstractmethod
    def _begin(self, timeout_ms: int | None) -> Coroutine[Any, Any, None]:
        """Return the start of the asyncio client."""

    @property
    def client_id(self) -> str:
        """The id by which brokers know this member; empty before the start and after the end."""
        return self._inner.client_id

    def running_info(self) -> ConsumerRunningInfo:
        """Describe this consumer to an operator (GET_CONSUMER_RUNNING_INFO); raises InvalidUse."""
        self._usable()
        return self._in_loop(self._inner.running_info)

    def _on_queues_changed(self, callback: QueuesChanged) -> None:
        function("callback", callback)
        callbacks = self._callbacks

        def told(topic: str, queues: list[MessageQueue], mine: list[MessageQueue]) -> None:
            callbacks.post(partial(_call, callback), (topic, list(queues), list(mine)))

        self._in_loop(lambda: self._inner.on_queues_changed(told))


def _call(callback: Any, arguments: tuple[Any, ...]) -> None:
    callback(*arguments)
