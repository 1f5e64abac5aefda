"""The compiled lane and memory: none that is not its own is read, and what was written stays."""

import contextlib
import ctypes
import re
from typing import Any, Final

import pytest
from support.stand_ins.lane_worlds import World, plain_ack

from aerobee.client.message import Message
from aerobee.remoting.frame import LENGTH_BYTES, decode_payload

compiled = pytest.importorskip("aerobee.client.compiled.lane", reason="built without a C compiler")

OPAQUE: Final = re.compile(rb'"opaque":(\d+)')


@pytest.mark.parametrize("failing", range(12))
def test_an_allocation_that_fails_spoils_nothing(failing: int) -> None:
    """The call raises; frames before it and behind it are whole, and each has its answer."""
    reason = "this Python has nothing to make memory fail"
    testcapi = pytest.importorskip("_testcapi", reason=reason)
    world = World(compiled, (2_000, 1 << 26), 1 << 26)
    messages = [Message("t", b"%04d" % number + b"x" * 900) for number in range(40)]
    taken: list[Any] = [None] * len(messages)
    for at, message in enumerate(messages):
        begin = failing if at % 2 else 1_000
        with contextlib.suppress(MemoryError):
            testcapi.set_nomemory(begin, begin + 1)
            try:
                taken[at] = world.sender.begin(message, None, None, None, None, True)
            finally:
                testcapi.remove_mem_hooks()
    taken = [handle for handle in taken if handle is not None]
    world.turn()
    at, bodies = 0, []
    while at < len(world.written):
        end = at + LENGTH_BYTES + int.from_bytes(world.written[at : at + LENGTH_BYTES], "big")
        bodies.append(bytes(decode_payload(world.written[at + LENGTH_BYTES : end]).body))
        at = end
    assert len(bodies) == len(taken)
    assert all(len(body) == 904 for body in bodies)
    for handle, opaque in zip(taken, OPAQUE.findall(world.written), strict=True):
        world.read(plain_ack(int(opaque), handle.queue.queue_id, 1, {}))
    assert all(handle.error is None for handle in taken)
    assert (world.ring.unanswered, world.sender.held) == (0, 0)


SIZE_AT: Final = bytes.__basicsize__ - 1 - 8 - ctypes.sizeof(ctypes.c_ssize_t)
"""Where a bytes object has its size, before its hash and its first byte."""


def test_nothing_behind_what_was_read_is_looked_at() -> None:
    """Though it be the rest of a sound reply: all of a frame has to be there."""
    world = World(compiled, (9, 1 << 20), 1 << 20)
    world.send(Message("t", b"x"))
    world.turn()
    (opaque,) = OPAQUE.findall(world.written)
    frame = plain_ack(int(opaque), world.handles[0].queue.queue_id, 1, {"MSG_REGION": "r"})
    size = ctypes.c_ssize_t.from_address(id(frame) + SIZE_AT)
    whole = size.value
    assert whole == len(frame)
    taken = []
    for cut in range(whole):
        size.value = cut
        try:
            taken.append(world.ring.feed(frame, 0))
        finally:
            size.value = whole
    assert not any(taken)
    assert not world.handles[0].done
    assert world.ring.feed(frame, 0) == whole
    assert world.handles[0].result().queue_offset == 1
