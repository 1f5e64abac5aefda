"""The compiled lane where there is no memory: what was written stays whole."""

import contextlib
import re
from typing import Any, Final

import pytest
from support.stand_ins.lane_worlds import World, plain_ack

from aerobee.client.message import Message
from aerobee.remoting.frame import LENGTH_BYTES, decode_payload

compiled = pytest.importorskip("aerobee.client.compiled.lane", reason="built without a C compiler")
testcapi = pytest.importorskip("_testcapi", reason="this Python has nothing to make memory fail")

OPAQUE: Final = re.compile(rb'"opaque":(\d+)')


@pytest.mark.parametrize("failing", range(12))
def test_an_allocation_that_fails_spoils_nothing(failing: int) -> None:
    """The call raises; frames before it and behind it are whole, and each has its answer."""
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
