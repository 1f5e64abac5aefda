"""Plain sends to topics that store a retry once: compiled code does what the checked path does."""

import random
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.features.dedup import batch, send, unique_key
from support.servers.twin_brokers import TwinBrokers, stored
from support.waiting import until
from support.wire import connect, feed

from aerobee.broker.app import Broker
from aerobee.broker.compiled.choice import is_compiled
from aerobee.broker.features.dedup.feature import Dedup
from aerobee.remoting.command import Command
from aerobee.remoting.frame import encode_frame
from aerobee.storage.features.dedup.snapshot import ROW

pytestmark = pytest.mark.skipif(not is_compiled(), reason="built without a C compiler")

KEYS: Final = [unique_key(number) for number in range(6)] + ["ODD1", "a" * 32, "F" * 56]
SENDS: Final = st.builds(
    lambda key, queue_id, more: send(key, queue_id=queue_id, more=more),
    st.sampled_from(KEYS), st.integers(0, 1), st.sampled_from(["", "TAGS\x01a\x02"]),
)  # fmt: skip
BATCHES: Final = st.builds(
    lambda keys, queue_id: batch(keys, queue_id=queue_id),
    st.lists(st.sampled_from(KEYS), min_size=1, max_size=4), st.integers(0, 1),
)  # fmt: skip


@pytest.fixture(scope="module")
def twins() -> Iterator[TwinBrokers]:
    """Run a pair whose topics store a retry once."""
    with pytest.MonkeyPatch.context() as monkeypatch, TwinBrokers(monkeypatch) as pair:
        pair.each(lambda broker: watch(broker, "60"))
        yield pair


def watch(broker: Broker, seconds: str) -> None:
    """Let topic T store a retry once, and forget what it knew."""
    topics = broker.context.tables.topics
    config = topics.get("T")
    assert config is not None
    topics.update(config, {"+aerobee.dedup.seconds": seconds})  # the first one makes the feature
    dedup = broker.features.find(Dedup)
    assert dedup is not None
    dedup.firsts.now_ms = broker.context.sends.storing.now_ms
    for value in ("0", seconds):
        topics.update(config, {"+aerobee.dedup.seconds": value})


@given(st.lists(st.lists(st.one_of(SENDS, BATCHES), min_size=1, max_size=5), max_size=4))
@settings(
    max_examples=examples(60), deadline=None,
    suppress_health_check=list(HealthCheck), print_blob=True,
)  # fmt: skip
def test_the_same_is_stored_and_answered(twins: TwinBrokers, reads: list[list[Command]]) -> None:
    """Whatever comes again, in one read or in the next; afterwards both know the same."""
    twins.each(lambda broker: watch(broker, "60"))
    for read in reads:
        data = b"".join(encode_frame(command) for command in read)
        compiled, python = [
            twins._runner.run(exchange(broker, data, len(read))) for broker in twins.brokers
        ]
        assert compiled == python
    assert len(set(twins.each(keys_of))) == 1


@pytest.mark.parametrize("place", [0, 7, 8, 15, 16, 23, 24, 31])
def test_a_key_that_is_no_number_is_told_from_those_that_are(
    twins: TwinBrokers, place: int
) -> None:
    """One other character anywhere, whatever its bits; compiled code reads eight at once."""
    others = [chr(byte) for byte in range(0x20, 0x7F) if chr(byte) not in '\\"'] + ["\u00b5"]
    key = unique_key(0xA9F)
    keys = [key[:place] + other + key[place + 1 :] for other in others]
    twins.each(lambda broker: watch(broker, "60"))
    twins.exchange([encode_frame(batch([unique_key(1)]))])  # what comes first is declined
    before = twins.compiled_frames
    batches = [encode_frame(batch(keys[at : at + 24])) for at in range(0, len(keys), 24)]
    twins.exchange([b"".join(batches)])
    assert twins.compiled_frames - before == len(batches)
    compiled, python = twins.each(keys_of)
    assert compiled == python
    assert len(compiled) == 1 + len(keys)


async def exchange(broker: Broker, data: bytes, count: int) -> dict[str, Any]:
    """Give a broker a read; return what a client understands of the answers, and what is stored."""
    begin = broker.store.commit_log.position
    connection, wire = connect(broker)
    await feed(connection, wire, [data])
    await until(lambda: len(wire.replies()) == count, what="the replies")
    host = broker.context.writing.store_host.hex().upper()
    told = sorted(
        (reply.opaque, reply.code, ids(reply, host), sorted(reply.ext.items()))
        for reply in wire.replies()
    )
    return {"told": told, **stored(broker, begin)}


def ids(reply: Command, host: str) -> str:
    """Return the ids of an answer without the address, whose port each broker has of its own."""
    return reply.ext.pop("msgId", "").replace(host, "")


def keys_of(broker: Broker) -> tuple[object, ...]:
    """Return what a broker knows of the topic; what it knew before goes by and by."""
    dedup = broker.features.find(Dedup)
    assert dedup is not None
    keys, number = dedup.firsts.keys, dedup.firsts.numbers["T"]
    keys.rewind()
    return tuple(row for row in ROW.iter_unpack(keys.rows(100_000)) if row[3] == number)


def test_new_messages_are_served_by_compiled_code(twins: TwinBrokers) -> None:
    """The first of each kind may be declined, and so is what comes again."""
    dice = random.Random(1)
    before, count = twins.compiled_frames, 0
    for _ in range(10):
        keys = [unique_key(dice.getrandbits(90)) for _ in range(8)]
        commands = [send(key) for key in keys[:4]] + [batch(keys[4:])]
        twins.exchange([b"".join(map(encode_frame, commands))])
        count += len(commands)
    assert twins.compiled_frames - before > 0.8 * count
