"""Which instance a client uses: clients of one process and cluster share one where they can."""

import asyncio
import re
from collections.abc import Sequence
from typing import TypeAlias
from weakref import WeakKeyDictionary

from aerobee.client.errors import InvalidUse
from aerobee.client.instance import ClientInstance
from aerobee.client.settings import ClientSettings

Key: TypeAlias = tuple[tuple[str, ...], ClientSettings]

_instances: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Key, list[ClientInstance]]] = (
    WeakKeyDictionary()
)


def parse_namesrv(namesrv: str | Sequence[str]) -> tuple[str, ...]:
    """Read nameserver addresses: "host:port;host:port", commas as well, or a sequence of them.

    One HTTP URL instead is that of a server that tells the addresses. Raises InvalidUse if
    there is none, or such a URL beside something else.
    """
    parts = re.split(r"[;,\s]+", namesrv) if isinstance(namesrv, str) else namesrv
    addresses = tuple(part.strip() for part in parts if part.strip())
    if not addresses:
        raise InvalidUse("no nameserver address given; write for example namesrv='127.0.0.1:9876'")
    if len(addresses) > 1 and any("://" in address for address in addresses):
        raise InvalidUse(f"namesrv={namesrv!r}: a URL of an address server stands alone")
    return addresses


def share_instance(
    namesrv: tuple[str, ...], settings: ClientSettings, consumer_group: str | None = None
) -> ClientInstance:
    """Return the running loop's instance for this cluster and these settings, started if new.

    A broker keeps one member per connection and group, so that a second consumer of a group needs
    another client id: it gets an instance of its own. Raises InvalidUse if `instance_name` forbids
    that (MQClientManager.java; "The consumer group has been created before").
    """
    loop = asyncio.get_running_loop()
    instances = _instances.setdefault(loop, {}).setdefault((namesrv, settings), [])
    for instance in instances:
        if consumer_group is None or consumer_group not in instance.groups:
            break
    else:
        if instances and settings.instance_name:
            raise InvalidUse(
                f"consumer group {consumer_group!r} has a consumer in instance "
                f"{settings.instance_name!r} already; give this one another instance_name"
            )
        instance = ClientInstance(namesrv, settings)
        instance.start()
        instances.append(instance)
    instance.users += 1
    if consumer_group is not None:
        instance.groups.add(consumer_group)
    return instance


def claim_group(instance: ClientInstance, group: str) -> None:
    """Let an instance that is in use get a member of a group; raises InvalidUse for a second."""
    if group in instance.groups:
        raise InvalidUse(
            f"consumer group {group!r} has a consumer in this process already; give this one"
            " another instance_name, or subscribe before its start"
        )
    instance.groups.add(group)


async def return_instance(instance: ClientInstance, consumer_group: str | None = None) -> None:
    """Give an instance back; the last user closes it."""
    instance.users -= 1
    if consumer_group is not None:
        instance.groups.discard(consumer_group)
    if instance.users > 0:
        return
    for instances in _instances.get(asyncio.get_running_loop(), {}).values():
        if instance in instances:
            instances.remove(instance)
    await instance.close()
