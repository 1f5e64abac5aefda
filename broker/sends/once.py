"""Sends to topics that store a retry once: which messages of a request were stored before."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from aerobee.broker.sends.storing import Placed, Storing
from aerobee.broker.settings.live import Live
from aerobee.remoting.codes import SysFlag
from aerobee.remoting.command import INT32_MAX
from aerobee.remoting.headers.send import SendMessageReply
from aerobee.remoting.message.message_id import offset_message_id
from aerobee.remoting.message.properties import Property, find_property, parse_properties
from aerobee.remoting.message.recall_handle import encode_recall_handle
from aerobee.remoting.message.record import Record
from aerobee.remoting.words import HALF_TOPIC, TIMER_TOPIC

Keys: TypeAlias = Sequence[str | None]
"""The unique key of each message as its producer sent it, None where it sent none."""
Found: TypeAlias = Mapping[str, Record]
"""By their keys the records of messages that were stored before."""

DIGITS_MAX: Final = 18  # of a number that a record names
DUPLICATE: Final[Mapping[str, str]] = {"DUPLICATE": "true"}
"""What the answer has beside the first one's."""


class Split(msgspec.Struct, frozen=True):
    """What of a request is to be stored: the places of its messages, which is all without a first.

    `before` says of each other message which of the request has the same key.
    """

    fresh: list[int]
    before: dict[int, int]


class Once:
    """Asks for the firsts of a request's messages, and answers with them."""

    def __init__(self, live: Live, storing: Storing) -> None:
        self._live = live
        self._storing = storing

    def watches(self, topic: str) -> bool:
        """Whether a topic stores a retry once."""
        firsts = self._storing.firsts
        return firsts is not None and firsts.watches(topic)

    def keys(self, placed: Placed, *, batch: bool, sent: Mapping[str, str]) -> Keys:
        """Return the keys of a request's messages; `sent` are the properties in its header."""
        if not batch:
            return (sent.get(Property.UNIQ_KEY),)
        return [
            parse_properties(properties).get(Property.UNIQ_KEY)
            for _, _, properties, _ in placed.messages
        ]

    def may_know(self, topic: str, keys: Keys) -> bool:
        """Whether one of the messages may have been stored before, or comes twice."""
        firsts, now_ms = self._storing.firsts, self._storing.now_ms()
        assert firsts is not None
        sent = [key for key in keys if key]
        if len(set(sent)) < len(sent):
            return True
        return any(firsts.known(topic, key, now_ms) for key in sent)

    async def learn(self, topic: str, keys: Keys, found: dict[str, Record]) -> bool:
        """Add to `found` the firsts that are not there yet; False where nothing was missing.

        Then nothing was waited for either. What it says of a key holds until the next wait.
        """
        firsts, now_ms = self._storing.firsts, self._storing.now_ms()
        if firsts is None or not firsts.watches(topic):
            return False
        missing = {
            key for key in keys if key and key not in found and firsts.known(topic, key, now_ms)
        }
        for key in missing:
            if (record := await firsts.first(topic, key)) is None:
                continue
            if record.topic == HALF_TOPIC and not await self._storing.stands(record):
                firsts.forget(topic, key, record.position)  # no one will ever see that one
            else:
                found[key] = record
        return bool(missing)

    def split(self, keys: Keys, found: Found) -> Split:
        """Tell which messages are to be stored."""
        split, places = Split([], {}), dict[str, int]()
        for place, key in enumerate(keys):
            if not key:
                split.fresh.append(place)
            elif key not in found:
                if key in places:
                    split.before[place] = places[key]
                else:
                    places[key] = place
                    split.fresh.append(place)
        return split

    def note(self, topic: str, keys: Keys, positions: Sequence[int], stored_ms: int) -> None:
        """Note the keys of messages that were stored."""
        firsts = self._storing.firsts
        if firsts is None or not firsts.watches(topic):
            return
        for key, position in zip(keys, positions, strict=True):
            if key:
                firsts.put(topic, key, position, stored_ms)

    def count(self, topic: str) -> None:
        """Count a request that brought what was stored before."""
        if (firsts := self._storing.firsts) is not None:
            firsts.answered(topic)

    def answer(
        self,
        reply: SendMessageReply | None,
        keys: Keys,
        found: Found,
        split: Split,
        positions: Sequence[int],
    ) -> SendMessageReply:
        """Return the answer to a request of which `positions` are new, with `reply` of these.

        Without any it has all from the first message's first.
        """
        ids: dict[int, str] = {}
        for place, position in zip(split.fresh, positions, strict=True):
            ids[place] = self._storing.message_ids((position,))
        for place, key in enumerate(keys):
            if place in split.before:
                ids[place] = ids[split.before[place]]
            elif key is not None and key in found:
                ids[place] = offset_message_id(*found[key].store_host, found[key].position)
        msg_id = ",".join([ids[place] for place in range(len(keys))])
        if reply is not None:
            return msgspec.structs.replace(reply, msg_id=msg_id)
        first = found[keys[0] or ""]
        return SendMessageReply(
            msg_id=msg_id,
            queue_id=queue_id_of(first),
            queue_offset=first.queue_offset,
            transaction_id=keys[0] if len(keys) == 1 else None,
            batch_uniq_id=keys[0] if first.sys_flag & SysFlag.INNER_BATCH else None,
            recall_handle=recall_handle_of(first, self._live.current.broker_name),
        )


def queue_id_of(record: Record) -> int:
    """Return the queue that a producer was told, also of a message that waits elsewhere."""
    waits = find_property(record.properties, Property.REAL_TOPIC) not in (None, record.topic)
    told = number_of(record, Property.REAL_QID) if waits else None
    return record.queue_id if told is None or told > INT32_MAX else told


def recall_handle_of(record: Record, broker_name: str) -> str | None:
    """Return by what a producer can take a message back that waits for a time of its own."""
    topic = find_property(record.properties, Property.REAL_TOPIC)
    out_ms = number_of(record, Property.TIMER_OUT_MS)
    if record.topic != TIMER_TOPIC or topic is None or out_ms is None:
        return None
    key = find_property(record.properties, Property.UNIQ_KEY) or ""
    return encode_recall_handle(topic, broker_name, out_ms + 1, key)


def number_of(record: Record, name: str) -> int | None:
    """Return the number that a property has, None where it has none, whoever wrote it."""
    text = find_property(record.properties, name) or ""
    sound = text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX
    return int(text) if sound else None
