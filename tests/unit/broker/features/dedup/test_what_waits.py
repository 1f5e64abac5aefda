"""Of a message that waits, the one that was sent counts alone, whatever is stored of it later."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.features.dedup import is_known, known, send, set_clock, unique_key, watch
from support.features.transactions import (
    COMMIT,
    GIVEN_UP,
    HALF,
    ROLLBACK,
    begin,
    bodies,
    end,
    half_command,
    records,
)
from support.raw_peer import RawPeer
from support.servers.brokers import running_broker
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.broker.features.dedup.firsts import TopicFirsts
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.storage.layout import DEDUP

KEY = unique_key(1)
WINDOW_S = 60
SETTINGS = {
    "recallMessageEnable": "true", "transactionTimeOut": "100", "transactionCheckInterval": "600000"
}  # fmt: skip


LATER = {"transactionTimeOut": "600000"}


@asynccontextmanager
async def serving(
    folder: Path, **settings: str
) -> AsyncIterator[tuple[Broker, RawPeer, TopicFirsts]]:
    """A broker with a topic that stores a retry once, and a client of it."""
    async with (
        running_broker(folder, **{**SETTINGS, **settings}) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await watch(peer, seconds=WINDOW_S)
        yield broker, peer, await known(broker)


async def recalled(broker: Broker, peer: RawPeer, firsts: TopicFirsts) -> None:
    """Send a message for a time to come; long after its window it is taken back."""
    now_ms = wall_clock_ms()
    set_clock(broker, firsts, now_ms - 2 * WINDOW_S * 1000)
    sent = await peer.request(send(KEY, more=f"TIMER_DELIVER_MS\x01{now_ms + 60_000}\x02"))
    set_clock(broker, firsts, now_ms)
    ext = {"topic": "T", "recallHandle": sent.ext["recallHandle"], "producerGroup": "g"}
    command = Command(code=RequestCode.RECALL_MESSAGE, ext=ext, opaque=next_opaque())
    assert (await peer.request(command)).code == ResponseCode.SUCCESS


async def committed(broker: Broker, peer: RawPeer, firsts: TopicFirsts) -> None:
    """Begin a transaction that is committed long after its window."""
    now_ms = wall_clock_ms()
    set_clock(broker, firsts, now_ms - 2 * WINDOW_S * 1000)
    half = await begin(peer, key=KEY)
    set_clock(broker, firsts, now_ms)
    assert await end(peer, half, COMMIT) == (0, "")


async def asked_about(broker: Broker, peer: RawPeer, firsts: TopicFirsts) -> None:
    """Begin a transaction that nobody decides: it is stored once more, to be asked about."""
    now_ms = wall_clock_ms()
    set_clock(broker, firsts, now_ms - 2 * WINDOW_S * 1000)
    await begin(peer, key=KEY)
    set_clock(broker, firsts, now_ms)
    await until(lambda: len(records(broker, HALF)) == 2, what="it is stored once more")


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("what", [recalled, committed, asked_about])
async def test_what_is_stored_later_makes_no_key_known_for_longer(
    tmp_path: Path,
    what: Callable[[Broker, RawPeer, TopicFirsts], Awaitable[None]],
    restarts: bool,
    saved: bool,
) -> None:
    """After a restart, too: a message whose key is free again is not swallowed."""
    async with serving(tmp_path) as (broker, peer, firsts):
        await what(broker, peer, firsts)
        if not restarts:
            assert not await is_known(peer, KEY)
            return
    if not saved:
        (tmp_path / "store" / DEDUP).unlink()
    async with serving(tmp_path) as (_, peer, _):
        assert not await is_known(peer, KEY)


COPIED = "".join(
    f"{name}\x011\x02"
    for name in (
        "TIMER_ROLL_TIMES", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TRANSACTION_CHECK_TIMES",
        "TRAN_PREPARED_QUEUE_OFFSET", "AEROBEE_DELAYED",
    )
)  # fmt: skip


@pytest.mark.parametrize(
    "waits", ["TIMER_DELAY_SEC\x01600\x02", "DELAY\x0118\x02", "TRAN_MSG\x01true\x02", ""]
)
async def test_what_a_program_has_copied_hides_no_message(tmp_path: Path, waits: str) -> None:
    """It sends what it has consumed, with all that brokers had added: it is a new message."""
    more = f"{waits}PGROUP\x01pg\x02{COPIED}"
    async with serving(tmp_path, **LATER) as (_, peer, _):
        assert (await peer.request(send(KEY, more=more))).code == ResponseCode.SUCCESS
    (tmp_path / "store" / DEDUP).unlink()
    async with serving(tmp_path, **LATER) as (_, peer, _):
        assert await is_known(peer, KEY)


async def undone(broker: Broker, peer: RawPeer) -> dict[str, str]:
    """Begin a transaction that is rolled back."""
    half = await begin(peer, b"first", key=KEY)
    assert await end(peer, half, ROLLBACK) == (0, "")
    return half


async def given_up(broker: Broker, peer: RawPeer) -> dict[str, str]:
    """Begin a transaction that nobody decides."""
    half = await begin(peer, b"first", key=KEY)
    await wait_for_decisions(peer, 50)
    await until(lambda: bool(records(broker, GIVEN_UP)), what="it is given up")
    await wait_for_decisions(peer, 600_000)
    return half


async def wait_for_decisions(peer: RawPeer, wait_ms: int) -> None:
    """Let the broker wait so long for an END."""
    code, body = RequestCode.UPDATE_BROKER_CONFIG, b"transactionTimeOut=%d" % wait_ms
    assert (await peer.request(Command(code, body=body, opaque=next_opaque()))).code == 0


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("ended", [undone, given_up])
async def test_a_transaction_that_came_to_nothing_is_begun_anew(
    tmp_path: Path,
    ended: Callable[[Broker, RawPeer], Awaitable[dict[str, str]]],
    restarts: bool,
    saved: bool,
) -> None:
    """Its message is not there: the one that is sent again waits for its own end, and comes."""
    soon = {"transactionCheckInterval": "50", "transactionCheckMax": "1"}
    async with serving(tmp_path, **LATER, **soon) as (broker, peer, _):
        first = await ended(broker, peer)
        if not restarts:
            await commit_once(broker, peer, first)
            return
    if not saved:
        (tmp_path / "store" / DEDUP).unlink()
    async with serving(tmp_path, **LATER) as (broker, peer, _):
        await commit_once(broker, peer, first)
    (tmp_path / "store" / DEDUP).unlink()
    async with serving(tmp_path, **LATER) as (broker, peer, _):
        again = await peer.request(half_command(b"third", key=KEY))
        assert "DUPLICATE" in again.ext
        assert bodies(broker) == [b"second"]


async def commit_once(broker: Broker, peer: RawPeer, first: dict[str, str]) -> None:
    """Send the message again and commit it, twice; it is there once."""
    again = await peer.request(half_command(b"second", key=KEY))
    assert again.code == 0 and "DUPLICATE" not in again.ext
    assert again.ext["msgId"] != first["msgId"]
    assert (await end(peer, first, COMMIT))[0] == ResponseCode.SYSTEM_ERROR
    assert await end(peer, dict(again.ext), COMMIT) == (0, "")
    retry = await peer.request(half_command(b"second", key=KEY))
    assert "DUPLICATE" in retry.ext
    assert await end(peer, dict(retry.ext), COMMIT) == (0, "")
    assert bodies(broker) == [b"second"]


@pytest.mark.parametrize("restarts", [False, True])
async def test_what_was_committed_is_known(tmp_path: Path, restarts: bool) -> None:
    """Whether as a half message or as another one it is sent again: also by what the log has."""
    async with serving(tmp_path, **LATER) as (broker, peer, _):
        half = await begin(peer, b"first", key=KEY)
        for number in range(50):
            await begin(peer, b"other", key=unique_key(100 + number))
        assert await end(peer, half, COMMIT) == (0, "")
        if not restarts:
            assert await is_known(peer, KEY)
    async with serving(tmp_path, **LATER) as (broker, peer, _):
        again = await peer.request(half_command(b"first", key=KEY))
        assert again.ext == {**half, "DUPLICATE": "true"}
        assert await is_known(peer, KEY)
        assert bodies(broker) == [b"first"]


async def test_a_message_that_follows_a_transaction_is_stored_once(tmp_path: Path) -> None:
    """Its key had been of one that was rolled back: the message itself counts, at every start."""
    async with serving(tmp_path, **LATER) as (broker, peer, _):
        await undone(broker, peer)
        assert not await is_known(peer, KEY)
        assert await is_known(peer, KEY)
    for _ in range(2):
        (tmp_path / "store" / DEDUP).unlink()
        async with serving(tmp_path, **LATER) as (broker, peer, _):
            assert await is_known(peer, KEY)
            assert len(bodies(broker)) == 1
