"""Messages with a time of their own on their way in (HookUtils.handleScheduleMessage)."""

import random
from collections.abc import Callable
from functools import partial
from typing import Final

from aerobee.broker.features.timers.service import TimerService
from aerobee.broker.features.timers.times import checked_ms, is_timed, out_ms
from aerobee.broker.features.timers.waiting import ADDED_BYTES_MAX
from aerobee.broker.rules.delay_property import delay_level
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.placing import Elsewhere
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.message.properties import Property
from aerobee.remoting.message.recall_handle import encode_recall_handle
from aerobee.remoting.words import RETRY_PREFIX, TIMER_TOPIC
from aerobee.storage.features.timers.codecs import PRECISION_MS

UNWRITTEN_BYTES_MAX: Final = 64 << 20
"""Of units in memory that the disk does not take: then no more messages are."""

_OWN: Final = (
    Property.TIMER_ROLL_TIMES,
    Property.TIMER_ENQUEUE_MS,
    Property.TIMER_DEQUEUE_MS,
)
"""The broker's own: a program that sends what it has consumed may have copied them."""


class TimerPlacer:
    """Puts messages that are due later into the timers' queue."""

    def __init__(
        self, writing: Writing, settings: Callable[[], BrokerSettings], service: TimerService
    ) -> None:
        self._queues = writing.queues
        self._tag_hashes = writing.appender.tag_hashes
        self._settings = settings
        self._service = service

    def elsewhere(
        self, properties: dict[str, str], topic: str, queue_id: int, now_ms: int
    ) -> Elsewhere | None:
        """Say where a message waits that asks for a time, with its properties changed for that.

        Raises RequestError in RocketMQ's words for a time that cannot be.
        """
        if not is_timed(properties) or delay_level(properties):
            return None
        settings = self._settings()
        due_ms = checked_ms(properties, now_ms, settings.timer_max_delay_sec)
        if due_ms is None:
            return None
        for name in _OWN:
            properties.pop(name, None)
        out = out_ms(due_ms)
        self._check_room(out, settings.timer_congest_num_each_slot)
        properties[Property.TIMER_OUT_MS] = str(out)
        properties[Property.REAL_TOPIC] = topic
        properties[Property.REAL_QID] = str(queue_id)
        reply = {}
        if not topic.startswith(RETRY_PREFIX):
            reply["recall_handle"] = encode_recall_handle(
                topic, settings.broker_name, out + 1, properties.get(Property.UNIQ_KEY, "")
            )
        return Elsewhere(
            self._queues.get(TIMER_TOPIC, 0),
            self._tag_hashes[properties.get(Property.TAGS, "")],
            ADDED_BYTES_MAX,
            partial(self._service.arrived, due_ms, properties),
            reply=reply,
        )

    def _check_room(self, out: int, congested: int) -> None:
        """Refuse a message whose second has too many already (TimerMessageStore.isReject).

        The more there are the likelier; RocketMQ's chance falls as they grow.
        """
        index = self._service.index
        if index.unwritten_bytes > UNWRITTEN_BYTES_MAX:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                "the disk does not take what waits (timerlog): see the log",
            )
        if congested >= 2**31 - 1 or not index.used:
            return
        slot = index.wheel.slot(out // PRECISION_MS)
        count = slot.count if slot is not None else 0
        if count > congested and random.random() < (count - congested) / congested:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"timer message is under flow control, max num limit is {2 * congested} or the "
                f"current value is greater than {congested} and less than {2 * congested}, "
                "trigger random flow control",
            )
