"""What the store has lost, in numbers."""

from collections.abc import Iterable

from aerobee.broker.start.context import Context
from aerobee.storage.log.damage import Damage, Lost


def passed_over(ctx: Context) -> list[Lost]:
    """List the messages that reads have passed over: the log has no such record."""
    return ctx.store.reader.misreads.known(ctx.store.find_queue)


def lost_messages(damage: tuple[Damage, ...]) -> int:
    """Count the queue offsets whose messages cannot be read."""
    return sum(lost_offsets(span.queues) for span in damage)


def lost_offsets(lost: Iterable[Lost]) -> int:
    """Count the offsets of runs."""
    return sum(last - first + 1 for _, _, first, last in lost)
