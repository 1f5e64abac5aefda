"""What is wrong with a broker that serves all the same: sentences for people, values for tools."""

from collections.abc import Sequence
from typing import Any, Final

from aerobee.broker.measures.losses import lost_offsets, passed_over
from aerobee.broker.start.context import Context
from aerobee.storage.log.damage import Damage, Lost

SHOWN_MAX: Final = 100  # spans, and queues of a span, in one answer


def degraded(ctx: Context) -> list[str]:
    """Say what an operator should look at; nothing where all is well.

    The broker is ready: taking it out of service would take away the sound rest, too.
    """
    found = []
    if damage := ctx.store.damage:
        first, total = damage[0], sum(span.end - span.begin for span in damage)
        found.append(
            f"damaged: {total} bytes of the log cannot be read, {len(damage)} spans, the first from"
            f" {first.begin} to {first.end} ({first.reason}); see /api/broker and the log"
        )
    if passed := passed_over(ctx):
        topic, queue_id, offset, _ = passed[0]
        found.append(
            f"damaged: {lost_offsets(passed)} messages are passed over, the first at offset"
            f" {offset} of {topic}-{queue_id}: the log has no such record where the entry leads;"
            " see /api/broker, stop the broker and run python -m aerobee.storage.repair"
        )
    found += (line for room in ctx.rooms for line in room.degraded())
    if ctx.cluster.twins.at:
        found.append(f"another broker serves under this name at {ctx.cluster.twins.at}")
    return found


def lost_shown(lost: Sequence[Lost]) -> list[dict[str, Any]]:
    """Describe the first runs of offsets."""
    return [
        {"topic": topic, "queueId": queue_id, "firstOffset": first, "lastOffset": last}
        for topic, queue_id, first, last in lost[:SHOWN_MAX]
    ]


def damage_shown(damage: tuple[Damage, ...]) -> list[dict[str, Any]]:
    """Describe the oldest spans, and what each queue has lost in them."""
    return [
        {
            "begin": span.begin,
            "end": span.end,
            "reason": span.reason,
            "setAside": span.set_aside,
            "queues": lost_shown(span.queues),
            "moreQueues": max(0, len(span.queues) - SHOWN_MAX),
        }
        for span in damage[:SHOWN_MAX]
    ]


def recovery_shown(ctx: Context) -> dict[str, Any]:
    """Describe how the store was opened: by which proof, and what it had to read."""
    found = ctx.store.recovered
    return {
        "proof": found.proof,
        "begin": found.begun_at,
        "end": found.position,
        "records": found.records,
        "seconds": round(found.seconds, 3),
    }
