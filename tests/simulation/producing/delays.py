"""What became of delayed messages: each one that is demanded was put into its topic, and once."""

from typing import Final

from aerobee.broker.features.delays.feature import Delays
from aerobee.remoting.message.properties import find_property
from aerobee.remoting.message.record import decode_record
from aerobee.remoting.words import SCHEDULE_TOPIC
from aerobee.storage.features.delays.progress import DELIVERED_PROPERTY
from simulation.disk.broker import DiskBrokerNode
from simulation.judge.attempts import Place
from simulation.judge.ledger import Kind, Ledger
from simulation.servers import BrokerNode
from simulation.stage.world import World

Copies = dict[str, list[tuple[Place, int, bytes]]]
"""By level-offset of delayed messages: where each copy in their own topics stands, and its body."""

DUE_WITHIN_S: Final = 60.0  # twice the longest level that producers ask for


async def check_delays(world: World, ledger: Ledger, nodes: list[BrokerNode]) -> None:
    """Wait until all that is demanded is due, then judge each broker's log."""
    await world.until(lambda: not any(_waiting(ledger, node) for node in nodes), DUE_WITHIN_S)
    for node in nodes:
        if isinstance(node, DiskBrokerNode):
            with node.machine.looked_at():
                _check(ledger, node)
        else:
            _check(ledger, node)


def _demanded(ledger: Ledger, node: BrokerNode) -> dict[str, bytes]:
    """Return the acknowledged messages that waited at a broker, by level-offset."""
    found = {}
    for body in ledger.delayed:
        place, offset = ledger.acknowledged.get(body, (None, 0))
        if (
            place is not None and place.topic == SCHEDULE_TOPIC and place.broker == node.name
        ):  # else power has taken it
            found[f"{place.queue_id + 1}-{offset}"] = body
    return found


def _waiting(ledger: Ledger, node: BrokerNode) -> bool:
    """Whether a delayed message of a broker is still to be delivered."""
    delays = node.broker.features.find(Delays)
    assert delays is not None
    progress = delays.service.progress
    demanded = (which.split("-") for which in _demanded(ledger, node))
    return any(int(offset) >= progress.next_offset(int(level)) for level, offset in demanded)


def _check(ledger: Ledger, node: BrokerNode) -> None:
    copies = _copies(node)
    for which, found in copies.items():
        if len(found) > 1:
            places = ", ".join(f"{place} {offset}" for place, offset, _ in found)
            what = f"{node.name} delivered the delayed message {which} {len(found)} times: {places}"
            ledger.broke(Kind.TWICE, what)
    for which, body in _demanded(ledger, node).items():
        found = [each for each in copies.get(which, []) if each[2] == body]
        if not found:
            what = f"{node.name} never delivered the delayed message {which}, {body.decode()}"
            ledger.broke(Kind.LOST, what)
            continue
        place, offset, _ = found[0]
        ledger.acknowledge(body, place, offset)  # from now on it is a message like any other


def _copies(node: BrokerNode) -> Copies:
    """Return everything in a broker's queues that had waited."""
    copies: Copies = {}
    store = node.broker.store
    for topic, numbers in store.topics().items():
        for queue_id in numbers:
            queue = store.find_queue(topic, queue_id)
            assert queue is not None
            for offset in range(queue.min_offset, queue.max_offset):
                data = store.record_at(queue.entry(offset)[0])
                if data is None:
                    continue
                record = decode_record(data)
                which = find_property(record.properties, DELIVERED_PROPERTY)
                if which:
                    place = Place(topic, node.name, queue_id)
                    copies.setdefault(which, []).append((place, offset, bytes(record.body)))
    return copies
