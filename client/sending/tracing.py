"""Who sends the traces of a producer or consumer: a producer of its own, that nobody traces."""

import itertools
from dataclasses import replace
from typing import Final

from aerobee.client.hooks import Hooks
from aerobee.client.sending.producer import Producer
from aerobee.client.settings import ClientSettings, ProducerSettings
from aerobee.client.traces.dispatcher import SEND_TIMEOUT_MS, TraceDispatcher
from aerobee.client.traces.hook import TraceHook
from aerobee.remoting.words import TRACE_TOPIC

PRODUCE: Final = "PRODUCE"
CONSUME: Final = "CONSUME"
GROUP_CHARACTERS_MAX: Final = 80  # of the traced group's name; the rest is ours
CLOUD: Final = "CLOUD"

_numbers: Final = itertools.count(1)


class _TraceProducer(Producer):
    """Sends traces; what watches every client leaves them alone."""

    _watched_everywhere = False


def trace_consumer(
    hooks: Hooks, group: str, namesrv: tuple[str, ...], client: ClientSettings
) -> TraceHook:
    """Have what a consumer handles traced from now on; the hook is to be closed with it."""
    hook = trace_hook(group, namesrv, client, CONSUME)
    hooks.consume = [each for each in hooks.consume if not isinstance(each, TraceHook)]
    hooks.consume.append(hook)
    return hook


def trace_hook(
    group: str, namesrv: tuple[str, ...], client: ClientSettings, what: str
) -> TraceHook:
    """Return the hook that traces a client of `group`, PRODUCE or CONSUME; to be closed with it."""
    name = f"_INNER_TRACE_PRODUCER-{group[:GROUP_CHARACTERS_MAX]}-{what}-{next(_numbers)}"
    own = replace(client, enable_trace=False, instance_name="")
    settings = ProducerSettings(send_timeout_ms=SEND_TIMEOUT_MS)
    topic = client.trace_topic or TRACE_TOPIC
    cloud = client.access_channel == CLOUD
    dispatcher = TraceDispatcher(
        lambda: _TraceProducer(name, namesrv=namesrv, settings=settings, client=own),
        "" if cloud else topic,
        client.trace_batch_messages,
    )
    return TraceHook(dispatcher, topic, cloud=cloud)
