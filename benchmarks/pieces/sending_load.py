"""One load of single sends, in a process of its own: `client_sends.py` reads its line.

    python sending_load.py NAMESRV TOPIC LOAD MESSAGES

It imports nothing but the client, so that it runs against another checkout of it, too.
"""

import asyncio
import json
import resource
import sys
import time
from typing import Any, Final

from aerobee.client import Message, Producer

BODY_BYTES: Final = 1024
WARM_MESSAGES: Final = 5_000
TASKS: Final = 64
BODY: Final = bytes(at * 37 % 251 for at in range(BODY_BYTES))


def message(topic: str, number: int) -> Message:
    """Return a message as programs send it: a tag and a key of its own."""
    return Message(topic, BODY, tags="tag", keys=f"key-{number}")


async def send_soon(producer: Any, topic: str, count: int) -> None:
    """A handle for each, looked at when all have their outcome; 2,048 at a time go on."""
    handles: list[Any] = []
    for at in range(count):
        handles.append(producer.send_soon(message(topic, at)))
        if at % 512 == 511:
            await handles[max(0, at - 1_536)]
    await producer.flush()
    failed = [handle.error for handle in handles if handle.error is not None]
    assert not failed, failed[0]
    assert handles[-1].result().queue_offset >= 0


async def awaited(producer: Any, topic: str, count: int) -> None:
    """`await send` in 64 tasks."""

    async def some() -> None:
        for at in range(count // TASKS):
            await producer.send(message(topic, at))

    await asyncio.gather(*(some() for _ in range(TASKS)))


async def lone(producer: Any, topic: str, count: int) -> list[float]:
    """One after another; return how long each took."""
    took: list[float] = []
    for at in range(count):
        each = message(topic, at)
        began = time.perf_counter()
        await producer.send(each)
        took.append(time.perf_counter() - began)
    return took


LOADS: Final = {"soon": send_soon, "await": awaited, "lone": lone}


def cpu_s() -> float:
    """Return the CPU time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def main(namesrv: str, topic: str, load: str, count: int) -> None:
    """Warm up, measure, print one line of JSON."""
    run: Any = LOADS[load]
    async with Producer("sending-load", namesrv=namesrv) as producer:
        await run(producer, topic, WARM_MESSAGES if load != "lone" else 500)
        began, used = time.perf_counter(), cpu_s()
        took = await run(producer, topic, count)
        elapsed, used = time.perf_counter() - began, cpu_s() - used
    found = {"rate": count / elapsed, "cpu_us": used / count * 1e6}
    if took:
        took.sort()
        found |= {"p50_us": took[count // 2] * 1e6, "p99_us": took[count * 99 // 100] * 1e6}
    print(json.dumps(found))


if __name__ == "__main__":
    import uvloop

    words = sys.argv[1:]
    uvloop.run(main(words[0], words[1], words[2], int(words[3])))
