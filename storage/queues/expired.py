"""Our note of topics whose messages go before the log does: nothing before a position is shown.

A log file goes as a whole, with the messages of all topics; what a topic has kept for long enough
before that stays in the log, and its queues begin behind it. RocketMQ keeps where a queue begins
nowhere but in the names of its files and in where the log begins, so it would show those messages
again; nothing here harms it. A topic that was deleted and made again has later positions.
"""

from pathlib import Path

from aerobee.storage.disk.files import Files
from aerobee.storage.layout import EXPIRED
from aerobee.storage.queues.topic_positions import TopicPositions


class Expired(TopicPositions):
    """Where the messages begin that each topic still shows; what has expired once stays so."""

    def __init__(self, files: Files, root: Path) -> None:
        super().__init__(files, root / EXPIRED)
