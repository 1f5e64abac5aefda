"""Which logical queue a physical one is: asked for each message, of a topic of any size."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.features.static_topics import TOPIC, Piece, detail

from aerobee.broker.features.static_topics.mapped import MappedTopics
from aerobee.broker.features.static_topics.mappings import MappingTable
from aerobee.remoting.errors import RequestError

QUEUES = 2_000


class Counted(dict[int, Any]):
    """Counts how often all of it is gone through."""

    walks = 0

    def items(self) -> Any:
        """Go through it."""
        self.walks += 1
        return super().items()


def test_a_message_costs_the_same_whatever_queues_its_topic_has(tmp_path: Path) -> None:
    """Nothing goes through all of them."""
    table = MappingTable(tmp_path, "a", lambda: 1)
    pieces = {n: [Piece("b", n), Piece("a", n, 10)] for n in range(QUEUES)}
    mapping = detail("a", 1, pieces, total=QUEUES)
    queues = Counted(mapping.hosted_queues)
    mapping = msgspec.structs.replace(mapping, hosted_queues=queues)
    table.put(table.planned(mapping, force=False))
    before, mapped = queues.walks, MappedTopics(table, "a")
    for number in range(QUEUES):
        mapped.check_append(TOPIC, number)
        found = mapped.stored_in(mapping, number)
        assert found is not None and found.queue_id == number
    assert mapped.any_led(mapping) == 0
    with pytest.raises(RequestError, match="leads no more"):
        mapped.check_append(TOPIC, QUEUES)
    assert queues.walks == before


def test_what_was_stored_by_an_earlier_mapping_is_answered_by_it(tmp_path: Path) -> None:
    """A send may wait for the disk while its queue goes away; then nothing is left behind."""
    table = MappingTable(tmp_path, "a", lambda: 1)
    first = detail("a", 1, {5: [Piece("a", 0)]})
    table.put(first)
    mapped = MappedTopics(table, "a")
    table.put(detail("a", 2, {5: [Piece("a", 0), Piece("b", 0, 10)]}))
    found = mapped.stored_in(first, 0)
    assert found is not None and found.queue_id == 5
    assert mapped.stored_in(table.details[TOPIC], 0) is None
    assert mapped.any_led(table.details[TOPIC]) == -1
    table.drop(TOPIC)
    mapped.check_append(TOPIC, 0)
    assert not table.led
