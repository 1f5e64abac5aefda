"""Which brokers have which topics and groups: a new broker filled, topics spread.

Both are plans, which are shown, and applied by `MetadataAdmin.apply`.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from aerobee.admin.metadata import Metadata, MetadataChange, difference
from aerobee.client.errors import InvalidUse
from aerobee.remoting.bodies import TopicConfig


def filling(current: Metadata, broker: str, source: str) -> list[MetadataChange]:
    """Plan to give a broker all topics and groups of another one that it lacks.

    What it has in another way stays: `differing` names that. An empty plan: nothing is lacking.
    """
    wanted = Metadata(
        {
            name: {broker: placed[source]}
            for name, placed in current.topics.items()
            if source in placed and broker not in placed
        },
        {
            name: {broker: placed[source]}
            for name, placed in current.groups.items()
            if source in placed and broker not in placed
        },
    )
    return difference(current, wanted)


def differing(current: Metadata, broker: str, source: str) -> list[str]:
    """Name topics and groups that two brokers have with different settings."""
    tables: tuple[Mapping[str, Mapping[str, object]], ...] = (current.topics, current.groups)
    return [
        name
        for table in tables
        for name, placed in sorted(table.items())
        if broker in placed and source in placed and placed[broker] != placed[source]
    ]


def spreading(
    current: Metadata,
    topics: Sequence[str],
    brokers: Collection[str],
    *,
    total_queues: int | None = None,
) -> list[MetadataChange]:
    """Plan to have topics on all of these brokers, with as many queues on each.

    A broker that lacks a topic gets it as the one that has the most queues of it. With
    `total_queues` these are shared among the brokers, evenly, the first by name getting what is
    left over; where that are fewer than before, only those to write become fewer, so that what is
    in the others is still consumed. Nothing is taken from other brokers. Applied, the plan is
    empty.
    Raises InvalidUse for a topic that nobody has, and fewer queues than brokers.
    """
    names = sorted(brokers)
    if total_queues is not None and total_queues < len(names):
        raise InvalidUse(f"{total_queues} queues are fewer than {len(names)} brokers")
    wanted: dict[str, dict[str, TopicConfig]] = {}
    for topic in topics:
        placed = current.topics.get(topic)
        if not placed:
            raise InvalidUse(f"no broker has a topic {topic!r} that users made")
        model = max(sorted(placed.items()), key=lambda each: each[1].write_queue_nums)[1]
        wanted[topic] = {
            name: _with_queues(placed.get(name, model), name in placed, count)
            for name, count in zip(names, _shares(total_queues, len(names)), strict=True)
        }
    return difference(current, Metadata(wanted, {}))


def _shares(total: int | None, brokers: int) -> list[int | None]:
    if total is None:
        return [None] * brokers
    each, more = divmod(total, brokers)
    return [each + (number < more) for number in range(brokers)]


def _with_queues(config: TopicConfig, is_there: bool, queues: int | None) -> TopicConfig:
    if queues is None:
        return config
    read = max(queues, config.read_queue_nums) if is_there else queues
    return msgspec.structs.replace(config, read_queue_nums=read, write_queue_nums=queues)
