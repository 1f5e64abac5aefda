"""Topics and queues that a query names, compared with those that there are.

A wrong name would read nothing, and look like a quiet topic. A topic is there once it has a folder
among the ConsumeQueues, or once the broker has been told of it, with messages or not.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from aerobee.spark.at_rest.dispatched import dispatched_end
from aerobee.spark.at_rest.queue_ranges import StoreState, topic_folders
from aerobee.spark.at_rest.stores import Store, has_queues
from aerobee.spark.errors import OptionError
from aerobee.spark.offsets import BrokerQueue, Offsets, QueueRange
from aerobee.spark.options.values import near
from aerobee.spark.topics import TopicChoice
from aerobee.storage.layout import TOPICS

log = logging.getLogger(__name__)

QUEUES_NAMED_MAX = 10
_USERS = TopicChoice(system=False, retry=False)
_NOT_READ = "(subscribe, subscribePattern, assign, includeSystemTopics, includeRetryTopics)"


def check_topics(choice: TopicChoice, states: Sequence[StoreState], *, fail: bool) -> None:
    """Refuse topics that `subscribe` names and none of the stores has, or warn of them.

    Where messages are in no queue yet, or a store has no queues, they may still be there.
    """
    missing = set(choice.names or ())
    known: set[str] = set()
    for state in states:
        if missing and not has_queues(state.store) and state.end > state.start:
            return
        if missing:
            known.update(topic_folders(state.store))
            missing -= known
    for state in states:
        if missing:
            known.update(configured_queues(state.store))
            missing -= known
    if missing and not any(dispatched_end(state) < state.end for state in states):
        named = _near_topic(min(missing), known)
        _refuse(OptionError(f"option subscribe: there is no topic {named}"), fail=fail)


def check_assigned(
    choice: TopicChoice, store: Store, bounds: Mapping[BrokerQueue, QueueRange]
) -> None:
    """Refuse queues that there are not."""
    missing = sorted(
        key for key in choice.queues or () if key.broker == store.label and key not in bounds
    )
    if missing:
        raise OptionError(f"option assign: there is no queue {missing[0]} in {store.queues_dir}")


def check_offsets(
    option: str,
    asked: Offsets | int,
    choice: TopicChoice,
    bounds: Mapping[BrokerQueue, QueueRange],
    *,
    fail: bool,
) -> None:
    """Refuse offsets of queues that are not read; of those that there are not, or warn of them."""
    absent = sorted(key for key in asked if key not in bounds) if isinstance(asked, dict) else []
    for key in absent:
        if not choice.wants_queue(key):
            raise OptionError(
                f"option {option}: queue {key} is not among those to read {_NOT_READ}"
            )
    for key in absent:
        own = sorted(each for each in bounds if each.topic == key.topic)
        if own:
            named = ", ".join(f"{each.broker}:{each.queue_id}" for each in own[:QUEUES_NAMED_MAX])
            more = ", ..." if len(own) > QUEUES_NAMED_MAX else ""
            reason = f"there is no queue {key} (there are: {named}{more})"
        else:
            reason = f"there is no topic {_near_topic(key.topic, {each.topic for each in bounds})}"
        _refuse(OptionError(f"option {option}: {reason}"), fail=fail)


def configured_queues(store: Store) -> dict[str, int]:
    """The topics that a broker has been told of, each with its number of queues, as far as known.

    Source: TopicConfigManager of RocketMQ, `config/topics.json`.
    """
    try:
        path = Path(store.log_dir).parent / TOPICS
        table = json.loads(path.read_bytes())["topicConfigTable"]
        return {
            topic: max(int(config[f"{kind}QueueNums"]) for kind in ("read", "write"))
            for topic, config in table.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _near_topic(topic: str, known: Collection[str]) -> str:
    return near(topic, sorted(name for name in known if _USERS.wants(name)))


def _refuse(error: OptionError, *, fail: bool) -> None:
    if fail:
        raise error
    log.warning("%s; nothing is read of it", error)
