"""What may interrupt a call that waits, and who may not wait: Ctrl-C, the loop's thread, a loop."""

import asyncio
import contextlib
import gc
import logging
import pickle
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from types import FrameType

import pytest

from aerobee.client.sync import (
    ConsumeFrom,
    InvalidUse,
    LitePullConsumer,
    Message,
    Producer,
    SendContext,
    SendHook,
    SendStatus,
)
from aerobee.client.sync.loop_thread import use_loop_thread
from aerobee.remoting.errors import AerobeeError


class Stop(BaseException):
    """What a signal's handler raises, as KeyboardInterrupt for Ctrl-C."""


@contextlib.contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Have a signal's handler raise Stop in the main thread, which runs the tests."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stop

    before = signal.signal(signal.SIGUSR1, stop)
    main = threading.main_thread().ident
    assert main == threading.get_ident()
    timer = threading.Timer(seconds, signal.pthread_kill, (main, signal.SIGUSR1))
    timer.start()
    try:
        yield
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def test_an_interrupted_wait_is_cancelled_and_the_client_goes_on(namesrv: str) -> None:
    """A poll that would last a minute ends at once; the next one gets what comes."""
    consumer = LitePullConsumer("stopped", namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe("stopped")
    with Producer(namesrv=namesrv) as producer, consumer:
        producer.send(Message("stopped", b"zero"))
        assert [each.body for each in consumer.poll(20_000)] == [b"zero"]
        began_s = time.monotonic()
        with pytest.raises(Stop), interrupted_after(0.1):
            consumer.poll(60_000)
        assert time.monotonic() - began_s < 20
        producer.send(Message("stopped", b"one"))
        assert [each.body for each in consumer.poll(20_000)] == [b"one"]


def test_an_interrupted_send_is_cancelled(namesrv: str) -> None:
    """Also a start: neither leaves the thread behind."""

    async def forever() -> None:
        cancelled.append(False)
        try:
            await asyncio.sleep(60)
        finally:
            cancelled[0] = True

    cancelled: list[bool] = []
    with Producer(namesrv=namesrv) as producer:
        with pytest.raises(Stop), interrupted_after(0.1):
            producer._run(forever())
        assert cancelled == [True]
        assert producer.send(Message("t", b"x")).status is SendStatus.SEND_OK


def test_what_comes_though_its_caller_was_interrupted_is_not_lost() -> None:
    """It is given back, once, whether it came before the caller knew or behind."""
    unwanted: list[str] = []
    thread = use_loop_thread()
    try:

        async def stubborn() -> str:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            return "late"

        call = thread.call(stubborn(), unwanted=unwanted.append)
        with pytest.raises(Stop), interrupted_after(0.05):
            call.wait()
        assert unwanted == ["late"]

        async def quick() -> str:
            return "early"

        call = thread.call(quick(), unwanted=unwanted.append)
        assert call.wait_for(20)
        call.give_up()  # an interrupt between the answer and the return
        thread.call(asyncio.sleep(0)).wait()
        assert unwanted == ["late", "early"]
    finally:
        thread.give_back()


def test_a_poll_that_was_interrupted_with_a_batch_gives_it_back(namesrv: str) -> None:
    """It comes again, before what is behind it, and is not committed meanwhile."""
    consumer = LitePullConsumer("back", namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe("back")
    with Producer(namesrv=namesrv) as producer:
        queue = producer.send(Message("back", b"0")).queue
        for at in range(1, 4):
            producer.send(Message("back", b"%d" % at), queue=queue)
    with consumer:
        first = next(consumer)
        assert first.body == b"0"
        consumer.put_back([first])
        got = [first.body for first in (next(consumer) for _ in range(4))]
        assert got == [b"0", b"1", b"2", b"3"]
        consumer.put_back([first])  # it counts as consumed: nothing happens
        consumer.commit()
        assert consumer.committed(queue) == 4


class Waiting(SendHook):
    """Does within the loop's thread what only other threads may."""

    def __init__(self) -> None:
        self.producer: Producer | None = None

    def before(self, context: SendContext) -> None:
        if self.producer is not None and context.messages[0].body != b"inner":
            self.producer.send_soon(Message("t", b"inner"))  # which does not wait
            self.producer.send(Message("t", b"inner"))


def test_the_loop_s_own_thread_is_refused_instead_of_waiting_for_ever(namesrv: str) -> None:
    """As a hook that sends: its send fails, with words that say why; the next ones succeed."""
    hook = Waiting()
    with Producer(namesrv=namesrv, hooks=[hook]) as producer:
        hook.producer = producer
        with pytest.raises(InvalidUse, match="wait for itself"):
            producer.send(Message("t", b"x"))
        hook.producer = None
        assert producer.send(Message("t", b"x")).status is SendStatus.SEND_OK


class Leaving(SendHook):
    """Wants to end the process, from a thread that is not its main one."""

    def before(self, context: SendContext) -> None:
        if context.messages[0].body == b"leave":
            raise SystemExit(3)


def test_who_leaves_the_loop_leaves_the_others_alone(
    namesrv: str, caplog: pytest.LogCaptureFixture
) -> None:
    """SystemExit reaches the caller, and the loop goes on for all the others."""
    with Producer(namesrv=namesrv, hooks=[Leaving()]) as producer:
        with pytest.raises(SystemExit):
            producer.send(Message("t", b"leave"))
        assert producer.send(Message("t", b"stay")).status is SendStatus.SEND_OK


async def test_waiting_within_a_running_loop_is_warned_of_once(namesrv: str) -> None:
    """It works, and stops that loop's other tasks; the warning names the user's line."""
    producer = Producer(namesrv=namesrv)
    with pytest.warns(RuntimeWarning, match=r"asyncio\.to_thread") as caught:
        producer.start()
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert producer.send(Message("t", b"x")).status is SendStatus.SEND_OK
        await asyncio.to_thread(producer.close)


def test_a_client_that_nobody_can_close_any_more_is_named_and_closed(namesrv: str) -> None:
    """As files are; its thread ends with it."""
    circle: list[object] = [Producer("forgotten", namesrv=namesrv)]
    circle.append(circle)
    circle[0].start()  # type: ignore[attr-defined]
    del circle
    with pytest.warns(ResourceWarning, match="Producer 'forgotten', started"):
        gc.collect()
    thread = next((t for t in threading.enumerate() if t.name == "aerobee-client"), None)
    if thread is not None:
        thread.join(20)
        assert not thread.is_alive()


def test_a_client_cannot_be_sent_to_another_process(namesrv: str) -> None:
    """It says what to do instead."""
    with pytest.raises(TypeError, match="make one there"):
        pickle.dumps(Producer(namesrv=namesrv))


def test_calls_that_come_too_late_are_refused_and_hang_nobody(
    namesrv: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever calls while the last client closes gets an answer, or an error."""
    caplog.set_level(logging.CRITICAL)
    for _ in range(20):
        producer = Producer(namesrv=namesrv)
        producer.start()
        refused: list[AerobeeError] = []

        def send(producer: Producer = producer, refused: list[AerobeeError] = refused) -> None:
            try:
                while True:
                    producer.send(Message("t", b"x"))
            except AerobeeError as error:  # in use no more, or its connection gone meanwhile
                refused.append(error)

        threads = [threading.Thread(target=send, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        producer.close()
        for thread in threads:
            thread.join(20)
        assert len(refused) == 4
