"""What a handler says of its message, by words, errors or silence, comes true."""

from datetime import timedelta
from typing import Any

import pytest
from faststream import AckPolicy
from faststream.exceptions import NackMessage, RejectMessage
from support.waiting import until

from aerobee.client import ConsumeFrom, PushSettings
from aerobee.integrations.faststream import AerobeeBroker, annotations
from aerobee.testing import EmbeddedCluster

FIRST = ConsumeFrom.FIRST


async def test_what_is_said_of_a_message_comes_true(cluster: EmbeddedCluster) -> None:
    """Errors and nacks come again, rejects are dead letters, and silence is no consent."""
    broker = AerobeeBroker(cluster.namesrv_addr, group="g")
    got: list[str] = []
    dead: list[str] = []

    @broker.subscriber("t", consume_from=FIRST)
    async def handle(word: str) -> None:
        got.append(word)
        if got.count(word) > 1:
            return
        if word == "raise":
            raise ValueError(word)
        if word == "nack":
            raise NackMessage(delay_level=1)
        if word == "reject":
            raise RejectMessage

    @broker.subscriber("u", consume_from=FIRST, ack_policy=AckPolicy.MANUAL)
    async def manual(word: str, message: annotations.AerobeeMessage) -> None:
        got.append(word)
        if got.count(word) > 1:
            await message.ack()

    @broker.subscriber("%DLQ%g", group="clinic", consume_from=FIRST)
    async def clinic(word: str) -> None:
        dead.append(word)

    async with broker:
        await broker.start()
        for word in ("raise", "nack", "reject", "fine"):
            await broker.publish(word, "t")
        await broker.publish("silence", "u")
        again = ["fine", "nack", "nack", "raise", "raise", "reject", "silence", "silence"]
        await until(lambda: sorted(got) == again and dead == ["reject"], 30)
    async with AerobeeBroker(cluster.namesrv_addr, group="g") as other:
        waiting = other.subscriber("t")
        await other.start()
        assert await waiting.get_one(timeout=0.5) is None
        await waiting.stop()


async def test_policies_decide_for_the_handler(cluster: EmbeddedCluster) -> None:
    """REJECT_ON_ERROR buries at once; ACK lets go; a batch is one decision for all of it."""
    broker = AerobeeBroker(cluster.namesrv_addr, ack_policy=AckPolicy.ACK)
    got: list[Any] = []

    @broker.subscriber("t", group="let-go", consume_from=FIRST)
    async def let_go(word: str) -> None:
        got.append(f"ack {word}")
        raise ValueError(word)

    @broker.subscriber(
        "t", group="bury", batch=4, consume_from=FIRST, ack_policy=AckPolicy.REJECT_ON_ERROR
    )
    async def bury(words: list[str]) -> None:
        got.extend(f"bury {word}" for word in words)
        raise ValueError(words)

    @broker.subscriber("%DLQ%bury", group="clinic", consume_from=FIRST)
    async def clinic(word: str) -> None:
        got.append(f"dead {word}")

    @broker.subscriber("u", group="let-go", consume_from=FIRST)
    async def late(word: str) -> None:
        got.append(f"late {word}")

    async with broker:
        await broker.start()
        await broker.publish_batch("x", "y", topic="t")
        await until(lambda: len(got) == 6, 30)
        await broker.publish("z", "u", delay=timedelta(seconds=1.2))
        await until(lambda: "late z" in got, 30)  # what were to come again had come before
    decided = [f"{what} {word}" for what in ("ack", "bury", "dead") for word in "xy"]
    assert sorted(got) == [*decided, "late z"]


async def test_ordered_subscribers_pass_over_what_is_rejected(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """What fails is handled again before what comes behind it; a reject is told in the log."""
    broker = AerobeeBroker(cluster.namesrv_addr, group="g")
    got: list[str] = []
    settings = PushSettings(suspend_ms=20)

    @broker.subscriber("t", ordered=True, consume_from=FIRST, settings=settings)
    async def handle(word: str, message: annotations.AerobeeMessage) -> None:
        got.append(word)
        if word == "reject":
            await message.reject()
        elif word == "fail" and got.count(word) < 3:
            raise ValueError(word)

    async with broker:
        await broker.start()
        for word in ("fail", "reject", "last"):
            await broker.publish(word, "t", key="one")
        await until(lambda: "last" in got, 20)
    assert got == ["fail", "fail", "fail", "reject", "last"]
    assert "rejected, passed over" in caplog.text
