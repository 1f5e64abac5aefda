"""What became of messages that waited, when all is quiet: each where it has to be, and once."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Final

from aerobee.broker.features.timers.feature import Timers
from aerobee.broker.features.timers.times import due_ms
from aerobee.broker.features.transactions.feature import Transactions
from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.record import Record, decode_record
from aerobee.remoting.words import TIMER_TOPIC
from simulation.disk.broker import DiskBrokerNode
from simulation.judge.attempts import Place
from simulation.judge.ledger import Kind, Ledger
from simulation.producing.waits import SKEW_S
from simulation.servers import BrokerNode
from simulation.stage.doors import EPOCH_S
from simulation.stage.world import World

OVER_WITHIN_S: Final = 90.0  # three rounds of checks, and the longest time that is asked for
LATE_MS: Final = 100
HELD_UP_S: Final = 8.0  # so long after a trouble of its broker something may be late

Found = dict[bytes, list[tuple[Place, Record]]]


async def check_waits(world: World, ledger: Ledger, nodes: list[BrokerNode]) -> None:
    """Wait until nothing waits any more, then judge what all logs have."""
    over = await world.until(lambda: not any(map(_waiting, nodes)), OVER_WITHIN_S)
    if not over:
        waiting = {node.name: _waiting(node) for node in nodes}
        ledger.broke(Kind.LOST, f"there is still something that waits: {waiting}")
    found: Found = {}
    due: dict[bytes, int] = {}
    for node in nodes:
        looked_at = node.machine.looked_at() if isinstance(node, DiskBrokerNode) else nullcontext()
        with looked_at:
            for place, record in _records(node):
                body = bytes(record.body)
                if place.topic == TIMER_TOPIC:
                    due[body] = _due_ms(record)
                elif ledger.waits.topics.get(body) == place.topic:
                    found.setdefault(body, []).append((place, record))
    _check_times(ledger, found, due)
    _check_presence(ledger, found)


def _waiting(node: BrokerNode) -> int:
    """Return how many messages of a broker wait for their time, or for a decision."""
    count = 0
    if (timers := node.broker.features.find(Timers)) is not None:
        count += timers.service.index.waiting + timers.service.index.behind
    if (transactions := node.broker.features.find(Transactions)) is not None:
        count += len(transactions.halves)
    return count


def _records(node: BrokerNode) -> Iterator[tuple[Place, Record]]:
    store = node.broker.store
    for topic, numbers in store.topics().items():
        if topic.startswith("%"):
            continue
        for queue_id in numbers:
            queue = store.find_queue(topic, queue_id)
            assert queue is not None
            for offset in range(queue.min_offset, queue.max_offset):
                position, size, _ = queue.entry(offset)
                if size == BLANK_SIZE:
                    continue  # of a message that the log has lost: it leads to none
                data = store.record_at(position)
                if data is not None:
                    yield Place(topic, node.name, queue_id), decode_record(data)


def _due_ms(record: Record) -> int:
    return due_ms(parse_properties(record.properties), record.store_timestamp)[1]


def _check_times(ledger: Ledger, found: Found, due: dict[bytes, int]) -> None:
    """Nothing has come before its time, and late only what its broker was kept from."""
    for body, due_at_ms in due.items():
        for place, record in found.get(body, []):
            late_ms = record.store_timestamp - due_at_ms
            what = f"{body.decode()} came to {place} {record.queue_offset} {late_ms} ms late"
            if late_ms < 0:
                ledger.broke(Kind.EARLY, what)
            due_s, came_s = due_at_ms / 1000 - EPOCH_S, record.store_timestamp / 1000 - EPOCH_S
            since_s = due_s - HELD_UP_S - SKEW_S
            if late_ms > LATE_MS and not ledger.held_up(place.broker, since_s, came_s + SKEW_S):
                ledger.broke(Kind.LATE, what)


def _check_presence(ledger: Ledger, found: Found) -> None:
    """What is demanded is there, once; what was taken or rolled back is not."""
    waits = ledger.waits
    for body, topic in waits.topics.items():
        there = found.get(body, [])
        where = ", ".join(f"{place} {record.queue_offset}" for place, record in there)
        if len(there) > 1:
            ledger.broke(Kind.TWICE, f"{body.decode()} is there {len(there)} times: {where}")
        if there and waits.commits.get(body) is False:
            ledger.broke(Kind.HIDDEN, f"{body.decode()} was rolled back, and is at {where}")
        if there and body in waits.recalled:
            ledger.broke(Kind.HIDDEN, f"{body.decode()} was recalled, and is at {where}")
        gone = body in waits.recalled or body in waits.doubtful
        if body not in ledger.acknowledged:
            continue  # nothing was promised, or power has taken it
        if there:
            place, record = there[0]
            ledger.acknowledge(body, place, record.queue_offset)  # one like any other from now on
        elif gone:
            del ledger.acknowledged[body]
        else:
            where = str(ledger.acknowledged.pop(body)[0])
            ledger.broke(Kind.LOST, f"{body.decode()} waited in {where} and never came to {topic}")
