"""Finds messages by a key or an id, at all brokers of a topic at the same time."""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from time import monotonic
from typing import Self

import msgspec

from aerobee.client.cluster.brokers import Brokers
from aerobee.client.cluster.routes import MASTER_ID, TopicRoute
from aerobee.client.errors import BrokerRefused, InvalidUse, whole_number
from aerobee.client.errors import text as said
from aerobee.client.finding.found import FoundMessages, decode_found
from aerobee.client.finding.moments import moment_ms
from aerobee.client.finding.pages import ANY_TIME_MS, BrokerAnswers, KeySearch
from aerobee.client.message import check_topic
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import AerobeeError, CallTimedOut, Unavailable
from aerobee.remoting.headers.query import ViewMessageRequest
from aerobee.remoting.message.message_id import parse_offset_message_id
from aerobee.remoting.message.properties import Property
from aerobee.remoting.net.addresses import format_address
from aerobee.remoting.words import RETRY_PREFIX

KEY_SEPARATOR = " "
POP_SEPARATOR = "+"
"""In names of what pop consumers try again, %RETRY%group+topic, which brokers alone may give."""


class Search(msgspec.Struct, frozen=True):
    """What a user looks for, checked."""

    question: KeySearch
    message_id: str | None

    @classmethod
    def of(
        cls,
        topic: str,
        key: str | None,
        message_id: str | None,
        times: tuple[datetime | None, datetime | None],
        messages_max: int,
    ) -> Self:
        """Read what a user has written; raises InvalidMessage for the topic, InvalidUse."""
        is_retry = isinstance(topic, str) and topic.startswith(RETRY_PREFIX)
        check_topic(topic.replace(POP_SEPARATOR, "-") if is_retry else topic)
        if (key is None) == (message_id is None):
            raise InvalidUse("give one of key and message_id")
        text = key if key is not None else message_id
        said("message_id" if key is None else "key", text)
        if not text or KEY_SEPARATOR in text:
            raise InvalidUse(f"{text!r}: a key, or an id, is not empty and has no spaces")
        messages_max = whole_number("messages_max", messages_max)
        since, until = times
        begin_ms = 0 if since is None else moment_ms("since", since)
        end_ms = ANY_TIME_MS if until is None else moment_ms("until", until)
        if begin_ms > end_ms:
            raise InvalidUse(f"since={since} is after until={until}")

        def has_key(message: ReceivedMessage) -> bool:
            return text in message.properties.get(Property.KEYS, "").split(KEY_SEPARATOR)

        def has_id(message: ReceivedMessage) -> bool:
            unique = message.properties.get(Property.UNIQ_KEY)
            return text == unique or text.upper() == message.offset_message_id

        matches, index_type = (has_id, "U") if key is None else (has_key, "K")
        question = KeySearch(topic, text, index_type, matches, messages_max, begin_ms, end_ms)
        return cls(question, message_id)


async def find(brokers: Brokers, search: Search, timeout_ms: int) -> FoundMessages:
    """Ask all brokers of the topic; one that fails does not cost what the others have found.

    Raises RouteMissing, and what each broker failed with where all of them did.
    """
    deadline_s = monotonic() + timeout_ms / 1000
    topic = search.question.topic
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            route = await brokers.routes.get(topic)
    except TimeoutError:
        raise CallTimedOut(
            f"no nameserver told the route of topic {topic!r} before the search's time was up"
        ) from None
    place = None if search.message_id is None else _place(search.message_id, route)
    if place is not None:
        return await _view(brokers, search, place, deadline_s)
    asked = [BrokerAnswers(name, search.question) for name in sorted(route.brokers)]
    asking = [
        each.ask(brokers.connections, _in_order(route.brokers[each.broker_name]), deadline_s)
        for each in asked
    ]
    try:
        async with asyncio.timeout(deadline_s - monotonic()):
            await asyncio.gather(*asking)
    except TimeoutError:
        for each in asked:
            if not each.done and each.error is None:
                each.error = CallTimedOut(f"{each.broker_name} did not answer in {timeout_ms} ms")
    return _together(search, asked)


def _together(search: Search, asked: list[BrokerAnswers]) -> FoundMessages:
    """Put together what brokers have answered: the newest of all, in the order of their times."""
    failed = {each.broker_name: each.error for each in asked if each.error is not None}
    matching = [message for each in asked for message in each.found.values()]
    if asked and len(failed) == len(asked) and not matching:
        raise next(iter(failed.values()))
    matching.sort(key=lambda each: (each.store_timestamp_ms, each.queue, each.queue_offset))
    newest = matching[-search.question.messages_max :]
    complete = not failed and all(each.complete for each in asked)
    return FoundMessages(
        [each for each in newest if each.damage is None],
        complete and len(newest) == len(matching),
        failed,
        [each for each in newest if each.damage is not None],
    )


# --- by a place in a log ---


class _Place(msgspec.Struct, frozen=True):
    """Where a broker's id says that its message is: addresses to ask, the named one first."""

    broker_name: str
    addresses: list[str]
    position: int


def _place(message_id: str, route: TopicRoute) -> _Place | None:
    """Return the place that an id names; None for one that no broker of the topic has given.

    Ids that clients give look alike: whatever address they seem to name is called only where a
    nameserver says that it is one of the topic's brokers.
    """
    try:
        host, port, position = parse_offset_message_id(message_id)
    except ValueError:
        return None
    named = format_address(host, port)
    for broker_name, addresses in route.brokers.items():
        if named in addresses.values():
            others = [each for each in _in_order(addresses) if each != named]
            return _Place(broker_name, [named, *others], position)
    return None


async def _view(
    brokers: Brokers, search: Search, place: _Place, deadline_s: float
) -> FoundMessages:
    """Read the record at a place, if it is the one that was asked for."""
    question = search.question
    header = ViewMessageRequest(offset=place.position, topic=question.topic)
    problem: AerobeeError | None = None
    for address in place.addresses:
        left_ms = max(1, int((deadline_s - monotonic()) * 1000))
        try:
            async with asyncio.timeout(left_ms / 1000):
                reply = await brokers.connections.request(
                    address, RequestCode.VIEW_MESSAGE_BY_ID, header, timeout_ms=left_ms
                )
        except BrokerRefused as error:
            if error.code != ResponseCode.SYSTEM_ERROR:
                raise
            return FoundMessages([])  # code 1: there is no message at that place
        except (Unavailable, TimeoutError) as error:
            late = CallTimedOut(f"{address}: the time of the search is up")
            problem = error if isinstance(error, Unavailable) else late
        else:
            found = [
                each
                for each in decode_found(reply.body, place.broker_name)
                if each.queue.topic == question.topic and question.matches(each)
            ]
            sound = [each for each in found if each.damage is None]
            return FoundMessages(sound, True, {}, [each for each in found if each.damage])
    assert problem is not None
    raise problem


def _in_order(addresses: dict[int, str]) -> list[str]:
    """Return a broker's addresses, its master first."""
    ids: Iterable[int] = sorted(addresses, key=lambda each: (each != MASTER_ID, each))
    return [addresses[each] for each in ids]
