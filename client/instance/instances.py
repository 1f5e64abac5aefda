"""Which instance a client uses: clients of one process and cluster share one where they can."""

import asyncio
import atexit
import gc
from typing import TypeAlias
from weakref import WeakKeyDictionary

from aerobee.client.errors import InvalidUse
from aerobee.client.instance.client_instance import ClientInstance
from aerobee.client.settings import ClientSettings

Key: TypeAlias = tuple[tuple[str, ...], ClientSettings]

_instances: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Key, list[ClientInstance]]] = (
    WeakKeyDictionary()
)


def borrow_instance(
    namesrv: tuple[str, ...], settings: ClientSettings, consumer_group: str | None = None
) -> ClientInstance:
    """Return the running loop's instance for this cluster and these settings, started if new.

    A broker keeps one member per connection and group, so that a second consumer of a group needs
    another client id: it gets an instance of its own. Raises InvalidUse if `instance_name` forbids
    that (MQClientManager.java; "The consumer group has been created before").
    """
    loop = asyncio.get_running_loop()
    if loop not in _instances:
        _forget_ended()
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


def _forget_ended() -> None:
    """Let go of instances that nobody has closed, and whose loops have ended.

    They hold their loops; the clients that they hold are named when they go (`Lifetime.__del__`).
    """
    for loop in [each for each in _instances if each.is_closed()]:
        del _instances[loop]


def _forget_all() -> None:
    if any(any(each.values()) for each in _instances.values()):
        _forget_ended()
        gc.collect()


atexit.register(_forget_all)


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
