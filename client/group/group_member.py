"""What every kind of consumer has in common: its group, its subscriptions and its instance."""

import asyncio
import contextlib
import enum
import logging
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from aerobee.client.cluster.address_server import parse_namesrv
from aerobee.client.cluster.brokers import Brokers
from aerobee.client.errors import (
    BrokerRefused,
    Unavailable,
    function,
    wrong_argument,
)
from aerobee.client.group.locks import GroupLocks
from aerobee.client.group.member import Membership
from aerobee.client.group.offsets import GroupOffsets, OffsetStore, StartingPoint
from aerobee.client.group.ownership import Ownership, QueuesChanged, QueueWork
from aerobee.client.group.shares import ShareFinder
from aerobee.client.group.strategies import Averagely, Strategy
from aerobee.client.instance.client_instance import ClientInstance
from aerobee.client.instance.instances import borrow_instance
from aerobee.client.instance.lifetime import Lifetime
from aerobee.client.message import GROUP_CHARACTERS_MAX, MessageQueue, check_name
from aerobee.client.pulls.subscriptions import Subscription
from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import ClientSettings, given
from aerobee.remoting.bodies import ConsumeDirectlyResult, ConsumerData, ConsumerRunningInfo
from aerobee.remoting.net.tasks import Tasks
from aerobee.remoting.words import BROADCASTING, CLUSTERING, CONSUME_PASSIVELY, RETRY_PREFIX

if TYPE_CHECKING:
    from aerobee.client.traces.hook import TraceHook

log = logging.getLogger(__name__)

LASTING_NAME: Final = "DEFAULT"  # of a broadcasting member, unless it has another


class MessageModel(enum.Enum):
    """Who gets a message: one member of the group, or each of them (MessageModel.java).

        PushConsumer("caches", namesrv="127.0.0.1:9876", model=MessageModel.BROADCASTING)

    CLUSTERING is the default. A broadcasting member keeps its offsets in a folder of its machine.
    """

    CLUSTERING = CLUSTERING
    BROADCASTING = BROADCASTING


def model_word(model: MessageModel) -> str:
    """Return how brokers call a model; raises InvalidUse for what is none."""
    if not isinstance(model, MessageModel):
        hint = "write MessageModel.CLUSTERING or MessageModel.BROADCASTING"
        raise wrong_argument("model", "a MessageModel", model, hint)
    return model.value


class GroupMember(Lifetime):
    """A consumer before and while it belongs to a group; the consumers derive from it.

    They say by the attributes below what kind of member they are, before the start.
    """

    consume_type = CONSUME_PASSIVELY  # or CONSUME_ACTIVELY: told to brokers, changes nothing
    takes_locks = False  # True: a queue is taken with its lock in the broker
    client_rebalance = True  # False: a broker shares the queues out
    handover_timeout_ms: int | None = None  # how long a queue that is lost waits for its handlers
    message_model = CLUSTERING  # or BROADCASTING: every member has all the queues

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None,
        client: ClientSettings | None,
        strategy: Strategy | None,
        start: StartingPoint,
    ) -> None:
        """Check and keep the arguments; they are described at the consumers."""
        check_name("group", group, GROUP_CHARACTERS_MAX)
        client = given("client", client, ClientSettings)
        if strategy is not None and not callable(getattr(strategy, "allocate", None)):
            raise wrong_argument("strategy", "a Strategy, as Averagely()", strategy)
        self.group = group
        self.ownership: Ownership | None = None
        self._client = _lasting_client(client) if self._broadcasts else client
        self._namesrv = parse_namesrv(namesrv)
        self._strategy = strategy or Averagely()
        self._start = start
        self._subscriptions: dict[str, Subscription] = {}
        self._queues_changed: list[QueuesChanged] = []
        self._trace: TraceHook | None = None  # of a client that writes traces, from its start on

    @property
    def _broadcasts(self) -> bool:
        return self.message_model == BROADCASTING

    @property
    def client_id(self) -> str:
        """The id by which brokers know this member; empty before the start and after the end."""
        return self._instance.client_id if self._instance is not None else ""

    def _state(self) -> str:
        """What `repr` says of it: <PushConsumer 'billing': started, 8 queues of orders>."""
        queues = self.ownership.queues if self.ownership is not None else ()
        wanted = [each for each in self._subscriptions if not each.startswith(RETRY_PREFIX)]
        topics = ", ".join(wanted) or "nothing"
        if self._instance is None:
            return f"{super()._state()}, of {topics}"
        count = sum(not queue.topic.startswith(RETRY_PREFIX) for queue in queues)
        return f"{super()._state()}, {count} queue{'' if count == 1 else 's'} of {topics}"

    def trouble(self) -> list[str]:
        """Say in words what fails at the moment, as every client does.

            print(consumer.trouble())  # [] while it is well, also where it has no share

        A member that has not had its share of the queues since its start says so.
        """
        told = super().trouble()
        if not told and self.ownership is not None and not self.ownership.reach.begun:
            told.append(f"group {self.group!r} has not got its share of the queues yet")
        return told

    def _concerns(self, what: str) -> bool:
        mine = f"group {self.group!r}"
        return mine in what if " group " in what else not what.startswith("sending to")

    def on_queues_changed(self, callback: QueuesChanged) -> None:
        """Call `callback(topic, all_queues, my_queues)` whenever this member's share changed."""
        function("callback", callback)
        self._queues_changed.append(callback)

    # --- what the instance asks ---

    def topics(self) -> Iterable[str]:
        """The subscribed topics."""
        return self._subscriptions

    def heartbeat_data(self) -> ConsumerData:
        """This member as heartbeats describe it."""
        return ConsumerData(
            group_name=self.group,
            consume_type=self.consume_type,
            message_model=self.message_model,
            consume_from_where=self._start.consume_from.value,
            subscription_data_set=[each.body() for each in self._subscriptions.values()],
            unit_mode=False,
            handover_timeout_millis=None if self._broadcasts else self.handover_timeout_ms,
        )

    def members_changed(self) -> None:
        """Share the queues anew: members came or went."""
        if self._instance is not None:
            self._instance.rebalance_soon()

    @abstractmethod
    async def persist_offsets(self) -> None:
        """Store what was consumed; called every few seconds."""

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on at these offsets with those of the queues that are read here."""
        if self.ownership is not None:
            await self.ownership.reset(offsets)
            self._started().rebalance_soon(at_once=True)

    @abstractmethod
    def running_info(self) -> ConsumerRunningInfo:
        """Describe this consumer to an operator (GET_CONSUMER_RUNNING_INFO); raises InvalidUse."""

    async def consume_directly(self, message: ReceivedMessage) -> ConsumeDirectlyResult | None:
        """Handle a message now; None from a consumer without handlers."""
        return None

    # --- for the consumers ---

    def _borrow_instance(self) -> ClientInstance:
        """Get the instance, as the first thing of a start: from then on `close` ends it."""
        self._check_not_started()
        group = self.group if self._subscriptions else None
        instance = self._instance = borrow_instance(self._namesrv, self._client, group)
        self._follow_ups = Tasks()
        self._locks = GroupLocks(instance, self.group, required=self.takes_locks)
        self._member = Membership(
            instance, self.group, self._subscriptions, self._start, self._broadcasts
        )
        return instance

    def _offset_store(self, brokers: Brokers, folder: str) -> OffsetStore:
        """Return where offsets are kept: by these brokers, broadcasting in a folder here."""
        timeout_ms = self._client.offset_timeout_ms
        if self._broadcasts:
            from aerobee.client.group.local_offsets import LocalOffsets

            return LocalOffsets(self._member.instance, self.group, timeout_ms, folder)
        return GroupOffsets(brokers, self.group, timeout_ms, brokers.routes.outages)

    async def _check_subscriptions(
        self, instance: ClientInstance, go_on: Callable[[], None]
    ) -> None:
        """Let brokers look at what is subscribed so far; raises BrokerRefused."""
        await instance.identify()
        go_on()
        for subscription in list(self._subscriptions.values()):
            await instance.check_subscription(self.group, subscription)
            go_on()

    def _follow_up(
        self,
        instance: ClientInstance,
        subscription: Subscription,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Tell the brokers of a subscription that came late, share its queues, call `then`."""
        work = self._tell_late(instance, subscription, then)
        self._follow_ups.start(work, f"subscribe {subscription.topic}")

    async def _tell_late(
        self, instance: ClientInstance, subscription: Subscription, then: Callable[[], None]
    ) -> None:
        try:
            await instance.check_subscription(self.group, subscription)
        except BrokerRefused as error:
            log.error("subscription refused group=%s error=%s", self.group, error)
        if instance.consumers.get(self.group) is self:
            await instance.add_topic(subscription.topic)
        else:
            await instance.add_consumer(self)
        then()

    @contextlib.asynccontextmanager
    async def _in_time(self, timeout_ms: int | None) -> AsyncIterator[None]:
        """Let a start end with an answer of the cluster, or raise Unavailable; None: as it does."""
        if timeout_ms is None:
            yield
            return
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                yield
                if self.ownership is not None:
                    await self.ownership.reach.wait()
        except TimeoutError:
            reasons = self._instance.unrouted if self._instance is not None else {}
            known = next((str(reasons[topic]) for topic in self.topics() if topic in reasons), "")
            why = self.ownership.reach.why() if self.ownership is not None else ""
            raise Unavailable(
                f"group {self.group!r} cannot consume after {timeout_ms} ms:"
                f" {why or known or 'no answer of the cluster of ' + ';'.join(self._namesrv)}"
            ) from None

    def _give_up_topic(self, topic: str) -> None:
        """Want a topic no longer: its queues go to the other members, brokers are told."""
        self._subscriptions.pop(topic, None)
        if self._instance is not None and self.ownership is not None:
            self.ownership.release()
            self._instance.heartbeat_soon()

    async def _leave_group(self, instance: ClientInstance) -> None:
        """Give up all queues and tell the brokers; late subscriptions are followed no more."""
        try:
            await self._follow_ups.close()
        except BaseException:
            instance.vanish(self)
            raise
        await instance.leave(self)

    def _own(self, work: QueueWork, idle_max_ms: int) -> Ownership:
        """Return the ownership by which this member shares the queues of its topics."""
        shares = ShareFinder(self._member, self._strategy, by_broker=not self.client_rebalance)
        ownership = Ownership(self._member, shares, work, self._locks, idle_max_ms)
        ownership.on_changed += [self._renew_subscription, *self._queues_changed]
        return ownership

    def _renew_subscription(
        self, topic: str, queues: list[MessageQueue], mine: list[MessageQueue]
    ) -> None:
        """Tell the brokers, by a newer version, that this member's queues have changed."""
        if topic in self._subscriptions and self._instance is not None:
            self._subscriptions[topic].renew()
            self._instance.heartbeat_soon()


def _lasting_client(settings: ClientSettings) -> ClientSettings:
    """Return settings whose client id, "ip@DEFAULT", is the same after a restart.

    By its client id a member finds its file of offsets again; where a name is given it stays. Two
    members of a group on one machine therefore need two names (ClientConfig.java).
    """
    return settings if settings.instance_name else replace(settings, instance_name=LASTING_NAME)
