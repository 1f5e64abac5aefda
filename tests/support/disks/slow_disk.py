"""A disk that a test can hold up or fail, for what a broker reads beside its loop."""

import threading

from aerobee.broker.app import Broker


class Disk:
    """What reads beside the loop meet: `gate` holds them up, `error` fails them."""

    def __init__(self, broker: Broker) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.error: OSError | None = None
        self.reads = 0
        self._read, self._loop_thread = broker.store.files.read, threading.get_ident()
        broker.store.files.read = self.read  # type: ignore[method-assign]
        broker.live.change(broker.settings.model_copy(update={"compiled_fast_path": False}))
        broker.store.reader.use(lambda memory, at, count: 0)  # nothing is in memory
        broker.store.commit_log.flushed_position = broker.store.commit_log.committed
        for queue in broker.store.queues:
            queue.flushed_offset = queue.max_offset

    def read(self, fd: int, count: int, at: int) -> bytes:
        """Read as a disk that may be slow or broken; the loop's own reads are let through."""
        if threading.get_ident() == self._loop_thread:
            return self._read(fd, count, at)
        self.reads += 1
        assert self.gate.wait(20)
        if self.error is not None:
            raise self.error
        return self._read(fd, count, at)
