"""How many examples a costly property draws: few in `make test`, more in `make seeds` and soaks.

What fails by one example in ten is found by the first few; what only a rare one shows is left to
`make seeds`, which CI runs beside each `make test`, and to the thousands of a soak.
"""

import os
from typing import Final

FACTOR: Final = float(os.environ.get("EXAMPLES_FACTOR", "0.4"))  # of `make test`
COUNT_MIN: Final = 10  # fewer would show nothing


def examples(count: int) -> int:
    """Return how many examples to draw where `make seeds` draws `count`."""
    return max(round(count * FACTOR), min(count, COUNT_MIN))
