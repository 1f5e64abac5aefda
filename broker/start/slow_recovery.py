"""Says how far the recovery of a large store has come, from a thread: it holds the loop."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aerobee.storage.store import MessageStore

log = logging.getLogger(__name__)

QUIET_S: Final = 2.0  # so long an opening may take unsaid
INTERVAL_S: Final = 10.0


@contextmanager
def told_while_slow(store: MessageStore) -> Iterator[None]:
    """Log where a store is that is opened in this block: after 2 s, then every 10 s."""
    opened = threading.Event()
    begun_s = time.monotonic()

    def tell() -> None:
        wait_s = QUIET_S
        while not opened.wait(wait_s):
            wait_s = INTERVAL_S
            segments = store.segments
            log.info(
                "store_still_recovers path=%s seconds=%.0f log_begin=%d log_read_at=%s log_end=%d",
                store.settings.root,
                time.monotonic() - begun_s,
                segments.begin,
                segments.bad.read_at if segments.bad.read_at >= 0 else "nowhere",
                segments.end,
            )

    thread = threading.Thread(target=tell, name="slow recovery", daemon=True)
    thread.start()
    try:
        yield
    finally:
        opened.set()
        thread.join()
