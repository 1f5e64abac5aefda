"""Questions to the brokers of a cluster: one, each of them side by side, or page by page."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from aerobee.client.cluster.brokers import Brokers
from aerobee.client.cluster.directory import BrokerEntry, Cluster
from aerobee.client.cluster.routes import MASTER_ID, RouteCache
from aerobee.client.errors import BrokerRefused, InvalidUse
from aerobee.remoting.bodies import Body, TopicRouteData, decode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.config.java_properties import parse_java_properties
from aerobee.remoting.errors import AerobeeError, ProtocolError, Unavailable
from aerobee.remoting.headers.route import RouteInfoRequest
from aerobee.remoting.headers.typed import Header

AT_ONCE: Final = 64
"""Questions that are on their way side by side."""
READ_HERE_BYTES_MAX: Final = 256 << 10
"""A larger answer is read by a thread: of 100,000 queues it takes two seconds."""

B = TypeVar("B", bound=Body)
K = TypeVar("K")
T = TypeVar("T")


class Answers(NamedTuple, Generic[T]):
    """What each broker answered, by its name, and why others did not.

    A listing shows what it has: `failed` says of which brokers it tells nothing.
    """

    found: dict[str, T]
    failed: dict[str, AerobeeError]

    def or_raise(self) -> dict[str, T]:
        """Return what all have answered; raises what the first one of the others failed with."""
        for error in self.failed.values():
            raise error
        return self.found


def read_settings(address: str, body: bytes | memoryview) -> dict[str, str]:
    """Return the settings that a server tells (26, 319); raises ProtocolError for what are none.

    RocketMQ writes values as they are: one with a backslash, as folders of Windows have it, may be
    no text of properties.
    """
    try:
        return parse_java_properties(bytes(body).decode("utf-8", "replace"))
    except ValueError as error:
        raise ProtocolError(f"{address}: settings that cannot be read: {error}") from None


async def side_by_side(
    items: Iterable[K], work: Callable[[K], Awaitable[T]], at_once: int = AT_ONCE
) -> dict[K, T]:
    """Do something for each item, at most `at_once` at a time; the first error ends all."""
    gate = asyncio.Semaphore(at_once)

    async def one(item: K) -> T:
        async with gate:
            return await work(item)

    keys = list(items)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in keys]
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    return {key: task.result() for key, task in zip(keys, tasks, strict=True)}


class AdminCalls(Cluster):
    """Asks brokers by name; what the rooms of `admin` are made of."""

    async def masters_of(
        self, cluster: str | None = None, broker: str | None = None
    ) -> list[BrokerEntry]:
        """List the masters of a cluster, or the one of a broker's name; without either, all.

        Raises InvalidUse, which names what there is, for a cluster or broker that nobody has
        registered, Unavailable where there is no master at all.
        """
        known = await self.brokers()
        masters = [entry for entry in known if entry.broker_id == MASTER_ID]
        if not masters:
            raise Unavailable(
                f"no broker has registered with {';'.join(self.namesrv)}: start one, or look"
                " whether it registers elsewhere (namesrvAddr in its settings)"
            )
        for what, wanted, names in (
            ("cluster", cluster, {entry.cluster for entry in masters}),
            ("broker", broker, {entry.name for entry in masters}),
        ):
            if wanted is not None and wanted not in names:
                known_names = ", ".join(sorted(names))
                raise InvalidUse(f"no {what} {wanted!r}; there is {known_names}")
        return [
            entry
            for entry in masters
            if cluster in (None, entry.cluster) and broker in (None, entry.name)
        ]

    async def route(self, topic: str) -> TopicRouteData | None:
        """Return where a topic is, as a nameserver knows it; None if no broker has it."""
        header = RouteInfoRequest(topic=topic, accept_standard_json_only=True)
        try:
            return await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, TopicRouteData, header)
        except BrokerRefused as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            raise

    def routed(self) -> Brokers:
        """Return the brokers as routes name them, which are asked for anew."""
        return Brokers(self.connections, RouteCache(self._nameservers))

    async def masters_with(self, topic: str) -> dict[str, str]:
        """Return the addresses of the masters that have a topic, by broker name.

        Raises InvalidUse where nobody has it.
        """
        route = await self.route(topic)
        if route is None:
            raise InvalidUse(
                f"no topic {topic!r}: the nameservers {';'.join(self.namesrv)} know no broker that"
                f" has it; `aerobee topic list` shows what there is, `aerobee topic create {topic}`"
                " makes it"
            )
        return {
            data.broker_name: data.broker_addrs[MASTER_ID]
            for data in sorted(route.broker_datas, key=lambda data: data.broker_name)
            if MASTER_ID in data.broker_addrs
        }

    def at_least(self, timeout_ms: int) -> int:
        """Return how long a call may take that needs more than most: so long, or `api_timeout_ms`
        where that is more."""
        return max(timeout_ms, self.connections.timeout_ms)

    async def ask_broker(
        self,
        address: str,
        code: int,
        body_type: type[B],
        header: Header | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> B:
        """Return the body of a broker's answer; raises BrokerRefused, Unavailable."""
        reply = await self.connections.request(address, code, header, timeout_ms=timeout_ms)
        if len(reply.body) <= READ_HERE_BYTES_MAX:
            return decode_body(body_type, reply.body)
        return await asyncio.to_thread(decode_body, body_type, bytes(reply.body))

    async def tell_nameservers(self, code: int, header: Header) -> None:
        """Tell every nameserver, as each has tables of its own; raises what one failed with."""
        for address in list(self.namesrv):
            await self.connections.request(address, code, header)

    async def each(
        self,
        brokers: Sequence[BrokerEntry] | Mapping[str, str],
        question: Callable[[str], Awaitable[T]],
    ) -> Answers[T]:
        """Ask brokers side by side, by their addresses; one that fails costs no other its answer.

        All of them have failed: raises what the first one did.
        """
        addresses = (
            dict(brokers)
            if isinstance(brokers, Mapping)
            else {entry.name: entry.address for entry in brokers}
        )

        async def ask_one(name: str) -> T | AerobeeError:
            try:
                return await question(addresses[name])
            except AerobeeError as error:
                return error

        answers = Answers[T]({}, {})
        for name, answer in (await side_by_side(addresses, ask_one)).items():
            if isinstance(answer, AerobeeError):
                answers.failed[name] = answer
            else:
                answers.found[name] = answer
        if answers.failed and not answers.found:
            raise next(iter(answers.failed.values()))
        return answers


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a group that is none itself."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
