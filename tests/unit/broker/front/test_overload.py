"""More than the broker can serve in time: what waited for too long is refused, at no one's cost."""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from support.servers.brokers import pull_command, running_broker, send_command
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.broker.compiled import choice
from aerobee.broker.front import refusing
from aerobee.broker.front.lateness import BEAT_S, DISK_BUSY, TIMED_OUT, Lateness
from aerobee.broker.front.refusing import without_sends
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.settings.live import Live
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import FLAG_ONEWAY, FLAG_RESPONSE, Codec, Command
from aerobee.remoting.frame import FrameReader, encode_frame


def stall(seconds: float) -> None:
    """Do something else in the loop."""
    time.sleep(seconds)


class Clock:
    """A clock that stands still until told otherwise."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """A clock of its own for every test."""
    return Clock()


def lateness_of(
    clock: Clock,
    soon: list[Callable[[], None]],
    sync_s: Callable[[], float] = lambda: 0.0,
    **changes: object,
) -> Lateness:
    """Return what is tested, with RocketMQ's limits; `soon` is what the loop calls after a turn."""
    settings = BrokerSettings(broker_ip1="127.0.0.1").model_copy(update=changes)
    return Lateness(Live(settings), soon.append, clock, sync_s)


def is_late(lateness: Lateness, clock: Clock) -> bool:
    """Whether sends that are read now are refused."""
    return clock.now_s > lateness.in_time_until_s


def test_a_loop_that_comes_in_time_refuses_nothing(clock: Clock) -> None:
    """Before the first beat, between beats, and up to the limit."""
    lateness = lateness_of(clock, [])
    clock.now_s += 10
    assert not is_late(lateness, clock), "a start may take long"
    for late_s in (0.0, 0.0, 0.19):
        lateness.beat()
        assert not is_late(lateness, clock)
        clock.now_s += BEAT_S + late_s
        assert not is_late(lateness, clock)
    lateness.beat()
    assert not is_late(lateness, clock)


def test_what_is_read_after_a_stall_is_refused_and_nothing_later(clock: Clock) -> None:
    """Whether the loop reads or beats first, until all that came meanwhile is read."""
    soon: list[Callable[[], None]] = []
    lateness = lateness_of(clock, soon)
    lateness.beat()
    clock.now_s += BEAT_S + 0.35
    assert is_late(lateness, clock)
    assert round(lateness.waited_s(clock.now_s), 3) == 0.35
    lateness.beat()
    clock.now_s += 0.04  # in which others were refused
    assert is_late(lateness, clock)
    assert round(lateness.waited_s(clock.now_s), 3) == 0.39
    for turn_over in soon:
        turn_over()
    assert not is_late(lateness, clock)


def test_a_turn_that_takes_long_refuses_what_comes_last_in_it(clock: Clock) -> None:
    """Serving counts as any other work: what is served after 200 ms would be acknowledged late."""
    soon: list[Callable[[], None]] = []
    lateness = lateness_of(clock, soon)
    lateness.beat()
    clock.now_s += BEAT_S + 0.15
    lateness.beat()
    assert not is_late(lateness, clock)
    clock.now_s += 0.06
    assert is_late(lateness, clock), "it may have come when the turn before began"


def test_a_log_that_takes_long_to_write_is_named(clock: Clock) -> None:
    """Past osPageCacheBusyTimeOutMills the remark says that it was the page cache."""
    lateness = lateness_of(clock, [])
    lateness.beat()
    clock.now_s += BEAT_S + 0.9
    lateness.wrote(0.9)
    assert lateness.remark(lateness.waited_s(clock.now_s), clock.now_s) == TIMED_OUT
    clock.now_s += 0.2
    lateness.wrote(1.1)
    assert lateness.remark(lateness.waited_s(clock.now_s), clock.now_s) == DISK_BUSY
    lateness.beat()
    clock.now_s += 5
    assert lateness.remark(0.3, clock.now_s) == TIMED_OUT, "it had ended before that came"


def test_while_the_disk_does_not_answer_all_is_refused_and_afterwards_nothing(clock: Clock) -> None:
    """From osPageCacheBusyTimeOutMills on, also where the loop is late; unless switched off."""
    began_s, soon = clock.now_s, list[Callable[[], None]]()
    lateness = lateness_of(clock, soon, lambda: clock.now_s - began_s)
    never = lateness_of(clock, [], lambda: clock.now_s - began_s, broker_fast_failure_enable=False)
    for _ in range(20):
        lateness.beat()
        assert not is_late(lateness, clock)
        clock.now_s += BEAT_S
    clock.now_s += BEAT_S / 2
    lateness.beat()
    for turn_over in soon:
        turn_over()
    never.beat()
    assert is_late(lateness, clock) and not is_late(never, clock)
    waited_s = lateness.waited_s(clock.now_s)
    assert waited_s > 1 and lateness.remark(waited_s, clock.now_s) == DISK_BUSY
    began_s = clock.now_s
    clock.now_s += BEAT_S
    lateness.beat()
    assert not is_late(lateness, clock)
    assert lateness.remark(0.3, clock.now_s) == TIMED_OUT


def test_the_limits_are_settings(clock: Clock) -> None:
    """waitTimeMillsInSendQueue moves the limit, brokerFastFailureEnable=false takes it away."""
    lazy = lateness_of(clock, [], wait_time_mills_in_send_queue=2000)
    never = lateness_of(clock, [], broker_fast_failure_enable=False)
    for lateness in (lazy, never):
        lateness.beat()
    clock.now_s += BEAT_S + 1.9
    assert not is_late(lazy, clock) and not is_late(never, clock)
    clock.now_s += 0.2
    assert is_late(lazy, clock) and not is_late(never, clock)
    lazy.rest()
    assert not is_late(lazy, clock)


@pytest.fixture(params=["Python", "compiled"])
def code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Refuse by the Python that serves where nothing was compiled, and by what was."""
    if request.param == "Python":
        monkeypatch.setattr(refusing, "refuse_run", None)
    elif choice.refuse_run is None:
        pytest.skip("built without a C compiler")
    return str(request.param)


def late_frames() -> list[bytes]:
    """Sends of every form, and a pull."""
    plain = send_command()
    oneway = type(plain)(plain.code, plain.ext, b"x", plain.opaque, FLAG_ONEWAY)
    msgpack = type(plain)(plain.code, plain.ext, b"x", 77, codec=Codec.MSGPACK)
    commands = [
        plain,
        pull_command(3),
        send_command(code=RequestCode.SEND_BATCH_MESSAGE),
        oneway,
        msgpack,
        send_command(properties='TAGS\x01\u00e4"\x02'),
        type(plain)(plain.code, plain.ext, b"x", -1),
    ]
    return [encode_frame(command) for command in commands]


def test_sends_of_every_codec_are_taken_out_and_others_are_left(code: str) -> None:
    """One-way ones silently; the bytes of a frame that is not whole stay where they are."""
    frames = late_frames()
    data, tail = b"".join(frames), frames[0][:50]
    rest, refusals, count = without_sends(data + tail, len(data + tail), 1 << 20, TIMED_OUT, 312.7)
    assert rest == frames[1] + tail
    reader = FrameReader()
    reader.feed(b"".join(refusals))
    answers = list(reader)
    asked = FrameReader()
    asked.feed(data)
    opaques = [ask.opaque for ask in asked if ask.code != RequestCode.PULL_MESSAGE and not ask.flag]
    assert ([answer.opaque for answer in answers], count) == (opaques, 6)
    assert {(answer.code, answer.flag, answer.remark) for answer in answers} == {
        (ResponseCode.SYSTEM_BUSY, FLAG_RESPONSE, TIMED_OUT % (312, 7))
    }


def test_only_what_came_early_enough_is_refused(code: str) -> None:
    """A frame that ends behind the bytes that are late is served with all that follow it."""
    frames = late_frames()
    early = len(frames[0] + frames[1] + frames[2])
    data = b"".join(frames)
    for late_bytes in (early, early + 1, early + len(frames[3]) - 1):
        rest, refusals, count = without_sends(data, late_bytes, 1 << 20, TIMED_OUT, 200)
        assert rest == frames[1] + b"".join(frames[3:])
        assert len(b"".join(refusals)) > 0 and count == 2
    assert without_sends(data, len(frames[0]) - 1, 1 << 20, TIMED_OUT, 200) == (data, [], 0)


@pytest.mark.parametrize("length", [0, 3, 1 << 30, 0xFFFF_FFFF])
def test_a_length_that_is_a_lie_ends_what_is_refused(code: str, length: int) -> None:
    """It is left for who closes the connection; no byte beyond what was read is looked at."""
    frame = encode_frame(send_command())
    lie = length.to_bytes(4, "big") + frame[4:]
    rest, refusals, count = without_sends(frame + lie, len(frame + lie), 1 << 20, TIMED_OUT, 200)
    assert (rest, count) == (lie, 1) and refusals
    damaged = frame[:4] + b"\x00\xff\xff\xff" + frame[8:]  # the header's length
    rest, refusals, count = without_sends(damaged, len(damaged), 1 << 20, TIMED_OUT, 200)
    assert (rest, count) == (damaged, 0)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker that refuses what waited for too long."""
    async with running_broker(tmp_path, brokerFastFailureEnable="true") as running:
        yield running


async def answer_to(broker: Broker, *commands: Command) -> dict[int, Command]:
    """Send requests over a socket of their own and return the answers, by opaque."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    writer.write(b"".join(map(encode_frame, commands)))
    answers = await read_answers(reader, len(commands))
    writer.close()
    return answers


async def read_answers(reader: asyncio.StreamReader, count: int) -> dict[int, Command]:
    """Read so many answers."""
    frames, answers = FrameReader(), dict[int, Command]()
    while len(answers) < count:
        frames.feed(await reader.read(1 << 16))
        answers |= {answer.opaque: answer for answer in frames}
    return answers


async def stored_once(broker: Broker) -> Command:
    """Send one message and return the answer."""
    command = send_command()
    return (await answer_to(broker, command))[command.opaque]


async def stored_in_time(broker: Broker) -> Command:
    """Send until a message is taken: on a busy machine the next one may be late, too."""
    while True:
        answer = await stored_once(broker)
        if answer.code != ResponseCode.SYSTEM_BUSY:
            return answer
        await asyncio.sleep(0.1)


async def test_after_a_stall_sends_are_refused_and_pulls_are_served(broker: Broker) -> None:
    """In RocketMQ's words, with code 2, upon which producers take another broker."""
    assert (await stored_in_time(broker)).code == ResponseCode.SUCCESS
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    writer.write(encode_frame(pull_command(0)))
    await read_answers(reader, 1)  # its first byte has been looked at
    await asyncio.sleep(2 * BEAT_S)
    late, pull = send_command(), pull_command(0)
    writer.write(encode_frame(late) + encode_frame(pull))
    stall(0.5)
    answers = await read_answers(reader, 2)
    refused = answers[late.opaque]
    assert refused.code == ResponseCode.SYSTEM_BUSY
    assert refused.remark is not None and refused.remark.startswith(
        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: "
    )
    assert int(refused.remark.split("queue: ")[1].split("ms")[0]) >= 400
    assert answers[pull.opaque].code == ResponseCode.SUCCESS
    assert broker.context.front.lateness.refused >= 1
    assert (await stored_in_time(broker)).code == ResponseCode.SUCCESS
    writer.close()


async def test_what_comes_while_the_disk_stalls_is_refused_by_its_name(tmp_path: Path) -> None:
    """Also where it is a pull that has the log written."""
    options = {"brokerFastFailureEnable": "true", "osPageCacheBusyTimeOutMills": "300"}
    async with running_broker(tmp_path, **options) as broker:
        assert (await stored_in_time(broker)).code == ResponseCode.SUCCESS
        log, stalled = broker.store.commit_log, threading.Event()
        note = log.note

        def slow(position: int) -> None:
            log.note = note
            stalled.set()
            stall(0.6)
            note(position)

        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        late = send_command()
        with socket.create_connection(("127.0.0.1", broker.port)) as other:
            other.sendall(encode_frame(pull_command(0)))
            await asyncio.to_thread(other.recv, 1 << 16)

            def send_late() -> None:
                stalled.wait()
                other.sendall(encode_frame(late))

            sending = threading.Thread(target=send_late)
            sending.start()
            await asyncio.sleep(2 * BEAT_S)
            log.note = slow
            writer.write(encode_frame(send_command()) + encode_frame(pull_command(0)))
            assert len(await read_answers(reader, 2)) == 2
            sending.join()
            frames = FrameReader()
            frames.feed(await asyncio.to_thread(other.recv, 1 << 16))
            [answer] = frames
        assert (answer.opaque, answer.code) == (late.opaque, ResponseCode.SYSTEM_BUSY)
        assert answer.remark is not None and answer.remark.startswith("[PCBUSY_CLEAN_QUEUE]")
        assert (await stored_in_time(broker)).code == ResponseCode.SUCCESS
        writer.close()


async def test_a_sync_that_hangs_has_sends_refused_until_it_ends(tmp_path: Path) -> None:
    """Producers learn it before their own time is over; what waited for the disk is stored."""
    options = {"brokerFastFailureEnable": "true", "osPageCacheBusyTimeOutMills": "100"}
    async with running_broker(tmp_path, flushDiskType="SYNC_FLUSH", **options) as broker:
        assert (await stored_in_time(broker)).code == ResponseCode.SUCCESS
        flusher, held = broker.store.flusher, list[Callable[[], None]]()
        await until(lambda: not flusher.busy)
        submit = flusher._backend.submit

        def hang(syncs: Sequence[tuple[int, int]], *, log: bool = False) -> None:
            held.append(partial(submit, syncs, log=log))

        flusher._backend.submit = hang  # type: ignore[method-assign]
        waiting = asyncio.create_task(stored_in_time(broker))
        await until(lambda: held and flusher.log_sync_s > 0.3)
        refused = await stored_once(broker)
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert refused.remark is not None and refused.remark.startswith("[PCBUSY_CLEAN_QUEUE]")
        flusher._backend.submit = submit  # type: ignore[method-assign]
        for begin in held:
            begin()
        assert (await waiting).code == ResponseCode.SUCCESS
        assert (await stored_in_time(broker)).code == ResponseCode.SUCCESS


async def test_a_broker_that_stops_takes_what_still_comes(tmp_path: Path) -> None:
    """The beat has ended by then, which is no reason to refuse."""
    async with running_broker(tmp_path, brokerFastFailureEnable="true") as broker:
        assert (await stored_in_time(broker)).code == ResponseCode.SUCCESS
        stop = broker.context.cluster.registration.stop
        answers: list[Command] = []

        async def slow_stop() -> None:
            await asyncio.sleep(0.5)
            answers.append(await stored_once(broker))
            await stop()

        broker.context.cluster.registration.stop = slow_stop  # type: ignore[method-assign]
    assert [answer.code for answer in answers] == [ResponseCode.SUCCESS]
