"""What trace topics tell of one message, for programs that wait."""

from collections.abc import Sequence

from aerobee.client.plain.traces import MessageTraces
from aerobee.client.plain.traces import read_traces as read
from aerobee.client.settings import ClientSettings
from aerobee.client.sync.loop_thread import use_loop_thread
from aerobee.remoting.words import TRACE_TOPIC


def read_traces(
    namesrv: str | Sequence[str] | None,
    message_id: str,
    *,
    trace_topic: str = TRACE_TOPIC,
    begin_ms: int = 0,
    client: ClientSettings | None = None,
) -> MessageTraces:
    """Return what RocketMQ's clients, and ours, have traced of a message, by its client's id.

        traces = read_traces("127.0.0.1:9876", result.message_id)

    Reads the trace topic from what was stored at `begin_ms` (since 1970) to its end: needs no
    index, and takes time where there is much. Raises Unavailable and BrokerRefused as pulls do; a
    topic that does not exist has no traces.
    """
    thread = use_loop_thread()
    try:
        thread.check_may_wait()
        work = read(namesrv, message_id, trace_topic=trace_topic, begin_ms=begin_ms, client=client)
        return thread.call(work).wait()
    finally:
        thread.give_back()
