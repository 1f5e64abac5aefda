"""What a producer lends to those that send for it, and what they keep of a message meanwhile."""

from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

import msgspec

from aerobee.client.cluster.outages import Outages
from aerobee.client.cluster.routes import TopicRoute
from aerobee.client.message import Message, MessageQueue, SendResult
from aerobee.client.sending.attempts import FirstAttempt
from aerobee.client.sending.choice import QueueChoice
from aerobee.client.sending.frames import SendHeaders
from aerobee.client.sending.outgoing import Outgoing, Packer
from aerobee.client.sending.selectors import QueueSelector
from aerobee.client.settings import ProducerSettings
from aerobee.remoting.net.connection import Connection


class Doors(msgspec.Struct, frozen=True):
    """What a producer lets its sends use; `deliver` and `deliver_after` are its checked path."""

    settings: ProducerSettings
    packer: Packer
    headers: SendHeaders
    choice: QueueChoice
    routes: dict[str, TopicRoute]
    outages: Outages
    open: Callable[[MessageQueue], Connection | None]
    connect: Callable[[MessageQueue, float], Coroutine[Any, Any, Connection]]
    route: Callable[[str, float], Coroutine[Any, Any, TopicRoute]]
    deliver: Callable[..., Coroutine[Any, Any, SendResult]]
    deliver_after: Callable[..., Coroutine[Any, Any, SendResult]]
    plain: bool  # nobody watches single sends, and none is tried again for its status


class Detour(msgspec.Struct):
    """What the checked path needs of a message that is not in a lane."""

    message: Message
    outgoing: Outgoing
    queue: MessageQueue | None = None
    key: str | int | None = None
    selector: QueueSelector | None = None
    first: FirstAttempt | None = None  # that has failed
    context: Context | None = None  # of who sent it, where somebody watches
