"""How many examples a costly property draws: few in each `make test`, many in `make soak`."""

import os
from typing import Final

FACTOR: Final = int(os.environ.get("EXAMPLES_FACTOR", "1"))


def examples(count: int) -> int:
    """Return how many examples to draw where `make test` draws `count`."""
    return count * FACTOR
