"""Types of the compiled module; see plain_sends.pyx."""

from aerobee.broker.writing.queues import TopicQueue
from aerobee.broker.writing.tick import Tick
from aerobee.storage.log.commit_log import CommitLog

class PlainSends:
    """Serves the plain sends at the start of what was read."""

    def __init__(
        self,
        fast: dict[str, list[TopicQueue | None]],
        log: CommitLog,
        tick: Tick,
        suffix: bytes,
        body_bytes_max: int,
    ) -> None: ...
    def serve(
        self,
        data: bytes,
        at: int,
        frames_max: int,
        frame_bytes_max: int,
        stamp: bytes,
        stamp_flag: int,
        acks: list[bytes],
    ) -> tuple[int, int]:
        """Serve frames from `at` on; return where the first is that is not served, and how many."""

def refuse_run(
    data: bytes, at: int, end: int, before: bytes, after: bytes
) -> tuple[int, bytes, int]:
    """Answer the plain sends that stand at `at`, each by `before`, its opaque and `after`."""
