"""Offsets of queues as text and as values: what queries, checkpoints and manifests agree on.

A queue is named by its broker, topic and number; an offset counts messages from the queue's
first on, and always means the next message to read. The text is JSON as in Spark's Kafka source:
`{"orders": {"broker-a:0": 23, "broker-a:1": -2}}`, -2 for the earliest and -1 for the latest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from aerobee.spark.errors import OptionError

EARLIEST, LATEST = -2, -1
QUEUE_ID_MAX = (1 << 31) - 1
_QUEUE = re.compile(r"(?:(.+):)?(\d{1,10})", re.DOTALL)
_EXAMPLE = '{"orders": {"broker-a:0": 23, "broker-a:1": -2}}'
_ASSIGN_EXAMPLE = '{"orders": ["broker-a:0", "broker-a:1"]}'


class BrokerQueue(NamedTuple):
    """One queue; `broker` is a broker's name, or the label of a store at rest."""

    broker: str
    topic: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic} {self.broker}:{self.queue_id}"


Offsets = dict[BrokerQueue, int]
Marks = dict[BrokerQueue, str]  # which message stands before each offset: `lost.marks`
OffsetsTree = dict[str, Any]
MARKS = "@last"  # in place of a topic, whose names have no @


@dataclass(frozen=True, slots=True, order=True)
class QueueRange:
    """The messages of one queue from offset `start` on, up to but without `end`."""

    key: BrokerQueue
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.key} [{self.start}, {self.end})"


def format_offsets(offsets: Mapping[BrokerQueue, int]) -> str:
    """The offsets as JSON; equal offsets are equal texts."""
    return json.dumps(offsets_tree(offsets))


def offsets_tree(offsets: Mapping[BrokerQueue, int], marks: Marks | None = None) -> OffsetsTree:
    """What `format_offsets` writes, before it is text: equal offsets are in the same order.

    With marks they stand behind the topics, in a tree of the same kind.
    """
    topics: OffsetsTree = {}
    for key in sorted(offsets, key=_place):
        topics.setdefault(key.topic, {})[f"{key.broker}:{key.queue_id}"] = offsets[key]
    if marks:
        marked = topics[MARKS] = {}
        for key in sorted(marks, key=_place):
            marked.setdefault(key.topic, {})[f"{key.broker}:{key.queue_id}"] = marks[key]
    return topics


def _place(key: BrokerQueue) -> tuple[str, str, int]:
    return key.topic, key.broker, key.queue_id


def offsets_of_tree(tree: Mapping[str, Any]) -> Offsets:
    """The offsets in a tree that `offsets_tree` has made; ValueError for any other."""
    unknown = [topic for topic in tree if topic.startswith("@") and topic != MARKS]
    if unknown:
        raise ValueError(
            f"a checkpoint with {unknown[0]!r} beside its topics was written by a later version of"
            " aerobee; this one would lose what stands there: go on with that one, or with a new"
            " checkpoint and startingOffsets"
        )
    found: Offsets = {}
    for key, offset in _leaves({topic: queues for topic, queues in tree.items() if topic != MARKS}):
        if type(offset) is not int or not 0 <= offset < 1 << 63:
            raise _damaged(f"{offset!r} as the offset of queue {key}, which is no number from 0 on")
        found[key] = offset
    return found


def marks_of_tree(tree: Mapping[str, Any]) -> Marks:
    """The marks in such a tree, none in one of an early version; ValueError likewise."""
    return {key: str(text) for key, text in _leaves(tree.get(MARKS, {}))}


def _leaves(tree: Any) -> Iterator[tuple[BrokerQueue, Any]]:
    if not isinstance(tree, Mapping):
        raise _damaged(f"{tree!r} in place of its topics")
    for topic, queues in tree.items():
        if not isinstance(queues, Mapping):
            raise _damaged(f"{queues!r} in place of the queues of {topic!r}")
        for name, value in queues.items():
            queue = _QUEUE.fullmatch(name)
            if queue is None or queue[1] is None or int(queue[2]) > QUEUE_ID_MAX:
                raise _damaged(f"{name!r} of {topic!r}, which is no queue (broker:number)")
            yield BrokerQueue(queue[1], topic, int(queue[2])), value


def _damaged(what: str) -> ValueError:
    return ValueError(
        f"a checkpoint has {what}: it was changed by another hand, or is damaged; put back one from"
        ' before (folder "offsets"), or begin a new one with startingOffsets, as'
        f" {_EXAMPLE}"
    )


def parse_offsets(
    text: str, brokers: Collection[str] = (), where: str = "option startingOffsets"
) -> Offsets:
    """The offsets in a JSON text.

    `brokers` are those that are read: where it is one alone, queues may be named by their number
    only; none stands for any. `where` begins the text of the OptionError that is raised.
    """
    offsets: Offsets = {}
    for topic, queues in _topics(text, where, _EXAMPLE):
        if topic == MARKS:
            continue  # copied from a stream's progress
        if not isinstance(queues, dict):
            raise _refusal(where, f"{topic!r} has {queues!r} in place of its queues", _EXAMPLE)
        for name, offset in queues.items():
            key = _key(topic, name, brokers, where, _EXAMPLE)
            if type(offset) is not int or not EARLIEST <= offset < 1 << 63:
                reason = f"{offset!r} of {key} is no offset (a number, -2 earliest, -1 latest)"
                raise _refusal(where, reason, _EXAMPLE)
            if key in offsets:
                raise _refusal(where, f"queue {key} stands there twice", _EXAMPLE)
            offsets[key] = offset
    return offsets


def parse_assign(
    text: str, brokers: Collection[str] = (), where: str = "option assign"
) -> frozenset[BrokerQueue]:
    """The queues in a JSON text such as `{"orders": ["broker-a:0"]}`; else as `parse_offsets`."""
    keys = set()
    for topic, queues in _topics(text, where, _ASSIGN_EXAMPLE):
        if not isinstance(queues, list) or not queues:
            reason = f"{topic!r} has {queues!r} in place of its queues"
            raise _refusal(where, reason, _ASSIGN_EXAMPLE)
        for name in queues:
            keys.add(_key(topic, name, brokers, where, _ASSIGN_EXAMPLE))
    if not keys:
        raise _refusal(where, "it names no queue", _ASSIGN_EXAMPLE)
    return frozenset(keys)


def _topics(text: str, where: str, example: str) -> list[tuple[str, Any]]:
    try:
        topics = json.loads(text, object_pairs_hook=_once)
    except ValueError as error:
        raise _refusal(where, f"{text!r} is no JSON ({error})", example) from None
    except RecursionError:
        raise _refusal(where, "it is nested too deeply", example) from None
    if not isinstance(topics, dict):
        raise _refusal(where, f"{text!r} is no JSON object", example)
    return list(topics.items())


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _key(topic: str, name: Any, brokers: Collection[str], where: str, example: str) -> BrokerQueue:
    found = _QUEUE.fullmatch(str(name))
    if found is None or int(found[2]) > QUEUE_ID_MAX:
        reason = f"{name!r} of {topic!r} is no queue (broker:number, or the number alone)"
        raise _refusal(where, reason, example)
    broker = found[1]
    if broker is None:
        if len(brokers) != 1:
            known = f" ({', '.join(sorted(brokers))})" if brokers else ""
            reason = f"queue {name!r} of {topic!r} names no broker, and several are read{known}"
            raise _refusal(where, reason, example)
        (broker,) = brokers
    elif brokers and broker not in brokers:
        reason = f"there is no broker {broker!r} (there are: {', '.join(sorted(brokers))})"
        raise _refusal(where, reason, example)
    return BrokerQueue(broker, topic, int(found[2]))


def _refusal(where: str, reason: str, example: str) -> OptionError:
    return OptionError(f"{where}: {reason}; write it as {example}")
