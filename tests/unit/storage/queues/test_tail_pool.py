"""Memory of busy queues has a limit, also while one of them cannot be written."""

from aerobee.storage.queues.tail_pool import LARGE_BYTES, TailPool


class Busy:
    """A queue with a large tail, which the disk may not take."""

    def __init__(self, pool: TailPool, *, stuck: bool = False) -> None:
        self.pool, self.stuck = pool, stuck
        pool.used(self, 2 * LARGE_BYTES)

    def let_tail_go(self) -> None:
        """Keep little, or all."""
        if not self.stuck:
            self.pool.used(self, 0)


def test_a_tail_that_cannot_be_written_keeps_no_other_in_memory() -> None:
    """It stays; of the others those go that grew longest ago."""
    pool = TailPool(8 * LARGE_BYTES)
    Busy(pool, stuck=True)
    for _ in range(40):
        Busy(pool)
        assert pool.bytes <= 10 * LARGE_BYTES
