"""Light queues: further entries of messages that lie in the log once, for another topic.

RocketMQ calls them LMQ. A message says in INNER_MULTI_DISPATCH which ones it is for.
"""

from typing import Final

from aerobee.remoting.words import LIGHT_QUEUE_PREFIX
from aerobee.storage.proofs.progress import Progress

LIGHT_QUEUE_ID: Final = 0
"""The number of a light queue, which is the only one of its topic."""


def without_light(progress: Progress | None) -> Progress | None:
    """Return a progress without what it says of light queues, of which recovery proves nothing."""
    if progress is None or not any(
        key[0].startswith(LIGHT_QUEUE_PREFIX) for key in progress.queues
    ):
        return progress
    queues = {
        key: offset
        for key, offset in progress.queues.items()
        if not key[0].startswith(LIGHT_QUEUE_PREFIX)
    }
    return Progress(progress.position, progress.timestamp, queues)
