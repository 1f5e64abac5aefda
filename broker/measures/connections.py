"""Who is connected, by kind of client."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from aerobee.broker.measures.kinds import is_system_group, true_or_false, version_name
from aerobee.broker.measures.values import Values
from aerobee.broker.start.context import Context
from aerobee.remoting.command import language_name
from aerobee.remoting.words import CONSUME_ACTIVELY, CONSUME_POP

MODES: Final = {CONSUME_ACTIVELY: "pull", CONSUME_POP: "pop"}
"""How a group's members get their messages; all others are pushed theirs."""


def connections(ctx: Context, values: Values) -> Iterator[None]:
    """Add how many clients there are of each kind; yields after each client."""
    consumers: Counter[tuple[str, int, int, str]] = Counter()
    for group in ctx.consumers.members.groups():
        for member in list(group.members.values()):
            client = member.client
            mode = MODES.get(group.consume_type, "push")
            consumers[group.name, client.language, client.version, mode] += 1
            yield
    for (name, language, version, mode), count in consumers.items():
        values.add(
            "rocketmq_consumer_connections",
            count,
            consumer_group=name,
            consume_mode=mode,
            is_system=true_or_false(is_system_group(name)),
            **_client(language, version),
        )
        yield
    producers: Counter[tuple[int, int]] = Counter()
    for members in ctx.consumers.members.producers().values():
        producers.update((member.client.language, member.client.version) for member in members)
        yield
    for (language, version), count in producers.items():
        values.add("rocketmq_producer_connections", count, **_client(language, version))


def _client(language: int, version: int) -> dict[str, str]:
    return {
        "language": language_name(language).lower(),
        "version": version_name(version),
        "protocol_type": "remoting",
    }
