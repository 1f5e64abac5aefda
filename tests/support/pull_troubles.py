"""What changes what pulls may read, done to a broker that runs."""

from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec

from aerobee.broker.app import Broker
from aerobee.broker.members.group import Client
from aerobee.remoting.bodies import ConsumerData, SubscriptionData, SubscriptionGroupConfig
from support.wire import connect

MEMBERS: Final[WeakKeyDictionary[Broker, Any]] = WeakKeyDictionary()


def change(broker: Broker, **changed: Any) -> None:
    """Change settings while the broker runs."""
    broker.live.change(broker.settings.model_copy(update=changed))


def trouble(broker: Broker, what: str, number: int) -> None:
    """Change something that pulls depend on."""
    context, even = broker.context, number % 2 == 0
    tables, store = context.tables, broker.store
    config = tables.topics.get("T")
    if what == "reset":
        tables.offsets.reset("GH"[number % 2], "T", 0, number)
    elif what == "delete" and config is not None:
        if even:
            store.delete_topic("T")
            context.writing.queues.drop_topic("T", context.pulls.holds.release)
            tables.offsets.delete_topic("T")
            context.health.metrics.forget(topic="T")
        tables.topics.delete("T")
        tables.topics.update(config)
    elif what == "perm" and config is not None:
        tables.topics.update(msgspec.structs.replace(config, perm=6 if even else 2))
    elif what == "queues" and config is not None:
        tables.topics.update(msgspec.structs.replace(config, read_queue_nums=1 + number % 4))
    elif what == "group":
        tables.groups.update(
            SubscriptionGroupConfig(
                group_name="GH"[number % 3 % 2], consume_enable=number % 5 > 0,
                group_sys_flag=number,
            )
        )  # fmt: skip
    elif what == "counts":
        change(broker, max_transfer_count_on_message_in_memory=1 + number)
    elif what == "settings":
        change(broker)
    elif what == "sync":
        store.flusher.flush_all(5)
    elif what == "retain" and store.segments.items[0].end < store.commit_log.committed:
        store.commit_log.commit()
        store.flusher.flush_all(5)
        store.segments.drop_first()
        for queue in store.queues:
            queue.trim(store.segments.begin)
    elif what == "slave":
        change(broker, slave_read_enable=even)
    elif what == "members":
        change(broker, reject_pull_consumer_enable=number % 4 == 0)
    elif what == "forget":
        tables.offsets.delete_group("G")
        context.health.metrics.forget(group="G")
    elif what == "broadcast":
        join(broker, "H", "*", number, "BROADCASTING" if even else "CLUSTERING")
    elif what == "join":
        join(broker, "M", ("*", "TagA", "TagB", "nothing")[number % 4], number)
    elif what == "leave":
        context.consumers.members.unregister_consumer(member_of(broker), "M")
    elif what == "forbid":
        tables.groups.forbid_reading("M", "T", forbidden=even)
    elif what == "maps":
        for queue in store.queues:
            queue.let_go()


def member_of(broker: Broker) -> Any:
    """Return a connection of which the members of all groups are."""
    return MEMBERS.setdefault(broker, connect(broker)[0])


def join(broker: Broker, group: str, tags: str, version: int, model: str = "CLUSTERING") -> None:
    """Have a group's only member say what it wants."""
    wants = SubscriptionData(topic="T", sub_string=tags, sub_version=version)
    data = ConsumerData(
        group_name=group, consume_type="CONSUME_PASSIVELY", message_model=model,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET", subscription_data_set=[wants],
    )  # fmt: skip
    client = Client(member_of(broker), "client", 0, 477)
    consumers = broker.context.consumers
    consumers.members.register_consumer(client, data, notified=False)
    while consumers.handovers.fresh:  # all pulls are looked at meanwhile
        consumers.handovers.fresh.popitem()[1].cancel()
