"""How often a crash test kills, and its chance: few rounds in `make test`, many in `make soak`."""

import os
import random
import time
from typing import Final

ROUNDS: Final = int(os.environ.get("KILL_ROUNDS", "3"))


def drawn() -> random.Random:
    """Return the chance of one test; its seed is printed, and KILL_SEED gives it again."""
    seed = int(os.environ.get("KILL_SEED", str(time.time_ns() % 1_000_000)))
    print(f"KILL_SEED={seed}")
    return random.Random(seed)
