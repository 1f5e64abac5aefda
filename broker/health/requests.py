"""What requests take that have a task or a function of their own: all but plain sends and pulls."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from aerobee.broker.room import Distribution, Histogram
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.words import SYSTEM_PREFIX, SYSTEM_TOPICS

LATENCY_MS: Final = (1, 3, 5, 7, 10, 100, 1000, 2000, 3000)
CREATION_MS: Final = (10, 100, 1000, 3000, 5000)
UNKNOWN: Final = "unknown"  # a code that nobody has given a name; peers can think of billions
MAKES_TOPICS: Final = frozenset(
    {RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST}
)
MAKES_GROUPS: Final = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    }
)
HELP: Final = {
    "rocketmq_rpc_latency_milliseconds": "Times of requests, but for plain sends and pulls",
    "rocketmq_topic_create_execution_time_milliseconds": "Times of making or changing a topic",
    "rocketmq_consumer_group_create_execution_time_milliseconds": "The same of a group",
}


def _names(codes: type) -> dict[int, str]:
    return {value: name.lower() for name, value in vars(codes).items() if type(value) is int}


class Requests:
    """Counts and times the requests that the dispatcher answers; see `Dispatcher`."""

    def __init__(self) -> None:
        self.waiting: Counter[int] = Counter()  # by request code, those that have a task
        self._times: dict[tuple[int, int, bool], Histogram] = {}
        self._topics: dict[tuple[bool, bool], Histogram] = {}  # by success, and of a system topic
        self._groups: dict[bool, Histogram] = {}
        self._names, self._replies = _names(RequestCode), _names(ResponseCode)

    def answered(self, command: Command, code: int, seconds: float) -> None:
        """Note that a request was answered with a code, and how long that took."""
        request = command.code if command.code in self._names else -1
        key = request, code, command.is_oneway
        times = self._times.get(key)
        if times is None:
            times = self._times[key] = Histogram(LATENCY_MS)
        times.add(int(seconds * 1000))  # whole ones, as RocketMQ's
        if request in MAKES_TOPICS:
            name = command.ext.get("topic", "")
            system = name in SYSTEM_TOPICS or name.startswith(SYSTEM_PREFIX)
            self._topics.setdefault((code == 0, system), Histogram(CREATION_MS)).add(
                int(seconds * 1000)
            )
        elif request in MAKES_GROUPS:
            self._groups.setdefault(code == 0, Histogram(CREATION_MS)).add(int(seconds * 1000))

    def distributions(self) -> Iterator[Distribution]:
        """Yield what they took, by code and answer."""
        for (request, code, oneway), times in list(self._times.items()):
            labels = {
                "protocol_type": "remoting",
                "request_code": self._names.get(request, UNKNOWN),
                "response_code": self._replies.get(code, str(code)),
                "is_long_polling": "false",
                "result": "oneway" if oneway else "success",
            }
            yield Distribution("rocketmq_rpc_latency_milliseconds", times, labels)
        for (success, system), times in list(self._topics.items()):
            labels = {"invocation_status": _status(success), "is_system": str(system).lower()}
            name = "rocketmq_topic_create_execution_time_milliseconds"
            yield Distribution(name, times, labels)
        for success, times in list(self._groups.items()):
            name = "rocketmq_consumer_group_create_execution_time_milliseconds"
            yield Distribution(name, times, {"invocation_status": _status(success)})


def _status(success: bool) -> str:
    return "success" if success else "failure"
