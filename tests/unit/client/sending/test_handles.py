"""Handles: what they refuse, and that nothing of them stays."""

import copy
import gc
import pickle
import traceback
import weakref
from typing import Any, Final

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.stand_ins.lane_worlds import QUEUE, done

from aerobee.client import BrokerRefused, InvalidUse, Message, Producer
from aerobee.client.sending import fast, handles
from aerobee.remoting.codes import RequestCode, ResponseCode

SEND: Final = RequestCode.SEND_MESSAGE_V2
KINDS: Final = dict.fromkeys((fast.Handle, handles.Handle))

pytestmark = pytest.mark.usefixtures("lane_code", "topic")


class Mark:
    """Lies in a frame that an error's traceback has."""


async def _fails(producer: Producer, marks: "weakref.WeakSet[Mark]") -> None:
    mark = Mark()
    marks.add(mark)
    handle = producer.send_soon(Message("t", b"x"), queue=QUEUE)
    with pytest.raises(BrokerRefused):
        await handle


async def test_failed_ones_are_let_go(cluster: FakeCluster) -> None:
    """An error has the frames in which it was raised, these the handle, which has the error."""
    marks: weakref.WeakSet[Mark] = weakref.WeakSet()
    async with Producer(namesrv=cluster.namesrv) as producer:
        await done(producer.send_soon(Message("t", b"warm"), queue=QUEUE))
        cluster.brokers[0].refuse(SEND, ResponseCode.MESSAGE_ILLEGAL, 20)
        for _ in range(20):
            await _fails(producer, marks)
        gc.collect()
        assert len(marks) == 0


async def test_an_error_that_is_raised_often_does_not_grow(cluster: FakeCluster) -> None:
    """Its traceback is that of the last time; many handles may have one error."""
    async with Producer(namesrv=cluster.namesrv) as producer:
        await done(producer.send_soon(Message("t", b"warm"), queue=QUEUE))
        cluster.brokers[0].refuse(SEND, ResponseCode.MESSAGE_ILLEGAL)
        handle = producer.send_soon(Message("t", b"x"), queue=QUEUE)
        lengths = []
        for _ in range(3):
            with pytest.raises(BrokerRefused) as raised:
                await handle
            lengths.append(len(traceback.extract_tb(raised.value.__traceback__)))
        assert len(set(lengths)) == 1


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__module__)
def test_nobody_else_makes_one(kind: Any) -> None:
    """It would be of no message."""
    with pytest.raises(TypeError):
        kind()


async def test_one_is_not_copied(cluster: FakeCluster) -> None:
    """A copy would never hear of the message."""
    async with Producer(namesrv=cluster.namesrv) as producer:
        handle = producer.send_soon(Message("t", b"x"))
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="is not copied"):
                way(handle)


@pytest.mark.parametrize("wrong", [None, 5, _fails], ids=["none", "number", "coroutine"])
async def test_a_callback_is_a_plain_function(cluster: FakeCluster, wrong: Any) -> None:
    """Refused at the call: the loop would refuse it in the middle of a broker's replies."""
    async with Producer(namesrv=cluster.namesrv) as producer:
        handle = producer.send_soon(Message("t", b"x"))
        with pytest.raises(InvalidUse, match="callback must be a plain function"):
            handle.add_done_callback(wrong)
        await handle
