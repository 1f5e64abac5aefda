"""Frames of one socket read that are served many at once, by compiled code."""

from typing import Protocol


class ServeRun(Protocol):
    """Serves the frames of its kind at `at`, up to `frames_max`, until it declines one.

    Returns where it stopped and how many it has served. What it appended is in the log, and the
    acknowledgements, some whole frames in each item, are in `acks`. It raises nothing that the log
    raises: where there is no room it declines.
    """

    def __call__(
        self,
        data: bytes,
        at: int,
        frames_max: int,
        frame_bytes_max: int,
        stamp: bytes,
        stamp_flag: int,
        acks: list[bytes],
        /,
    ) -> tuple[int, int]:
        """Serve; see the class."""
