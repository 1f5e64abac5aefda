"""How often a crash test kills, and its chance: three rounds in `make test`, many in `make soak`.

The second kills what has begun with what the first one left, the third what that one has mended.
"""

import asyncio
import os
import random
import time
from collections.abc import Sized
from typing import Final

from support.waiting import until

ROUNDS: Final = int(os.environ.get("KILL_ROUNDS", "3"))


def drawn() -> random.Random:
    """Return the chance of one test; its seed is printed, and KILL_SEED gives it again."""
    seed = int(os.environ.get("KILL_SEED", str(time.time_ns() % 1_000_000)))
    print(f"KILL_SEED={seed}")
    return random.Random(seed)


async def a_while(dice: random.Random, least_s: float, most_s: float, done: Sized, by: int) -> None:
    """Let a load run for a time that chance decides, and until there are `by` things more `done`.

    On a busy machine the first of them may come later than a whole round takes elsewhere.
    """
    wanted = len(done) + by
    await asyncio.sleep(dice.uniform(least_s, most_s))
    await until(lambda: len(done) >= wanted, 30, "the load to reach the broker")
