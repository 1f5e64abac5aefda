"""Which code serves plain sends, halves and pulls: the compiled one where it is built and wanted.

`aerobee.broker.compiled` has modules after a build with a C compiler. `plain_sends` does what
`FastSends.send` and `send_batch` do, for all frames of a socket read at once, and what
`features/transactions/fast_halves.py` does of half messages and their ENDs; `record_runs` copies
the records of a pull as `storage/reads/reading.py` would, and answers pulls that come again with
other offsets, which `pulls/repeats.py` has learned. The Python remains the definition of what is
done, and serves what the compiled code declines. `wanted` is the setting `compiledFastPath`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from aerobee.broker.writing.runs import ServeRun
from aerobee.storage.disk.residency import Copied, Resident, copied_bytes, resident_bytes
from aerobee.storage.reads.reading import Gather

try:
    from aerobee.broker.compiled.plain_sends import HalfRuns, PlainSends
    from aerobee.broker.compiled.plain_sends import SeenKeys as _SeenKeys
    from aerobee.broker.compiled.plain_sends import refuse_run as _refuse_run
    from aerobee.broker.compiled.record_runs import RepeatedPulls
    from aerobee.broker.compiled.record_runs import copied as _copied
    from aerobee.broker.compiled.record_runs import gather as _gather
    from aerobee.broker.compiled.record_runs import guard_copies as _guard_copies
    from aerobee.broker.compiled.record_runs import resident as _resident
except ImportError:  # no compiler where this was installed, or another Python
    HalfRuns = PlainSends = RepeatedPulls = _SeenKeys = None  # type: ignore[assignment,misc]
    _refuse_run = _copied = _gather = _resident = None  # type: ignore[assignment]
    _guard_copies = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from aerobee.broker.compiled.record_runs import World
    from aerobee.broker.writing.firsts import SeenKeys
    from aerobee.broker.writing.parts import Writing
    from aerobee.broker.writing.queues import QueueExcerpt, TopicQueues
    from aerobee.broker.writing.tick import Tick
    from aerobee.storage.log.commit_log import CommitLog


class HalfWorld(msgspec.Struct, frozen=True):
    """What compiled code needs to serve half messages and ENDs; see half_runs.pxi.

    `key` and `half` make what the feature keeps of one, of which `by_key` and `by_offset` are open;
    `told` hears, when their records are in the log, which transactions a run has opened, by key and
    by offset, and which it has ended, and how.
    """

    log: "CommitLog"
    tick: "Tick"
    by_key: dict[Any, Any]
    by_offset: dict[int, Any]
    key: Callable[..., Any]
    half: Callable[..., Any]
    told: Callable[[dict[Any, Any], dict[int, Any], list[Any], list[int]], None]
    unusual: tuple[bytes, ...]
    body_bytes_max: int
    properties_bytes_max: int
    kept_bytes_max: int


def serve_run(
    writing: "Writing",
    queues: "TopicQueues | QueueExcerpt",
    suffix: bytes,
    message_bytes_max: int,
) -> ServeRun | None:
    """Return the compiled way to serve plain sends, None where there is none.

    `suffix` is what the broker adds to the properties of each message.
    """
    if PlainSends is None:
        return None
    store = writing.store
    sends = PlainSends(
        queues,
        store.commit_log,
        writing.tick,
        suffix,
        min(message_bytes_max, store.settings.message_bytes_max),
    )
    return sends.serve


def half_runs(queues: "TopicQueues", world: HalfWorld) -> "HalfRuns | None":
    """Return the compiled way to serve half messages and their ENDs, None where there is none."""
    return HalfRuns(queues, world) if HalfRuns is not None else None


def seen_keys(entries_max: int, *, wanted: bool) -> "SeenKeys | None":
    """Return the compiled table of unique keys, empty, None where there is none."""
    return _SeenKeys(entries_max) if wanted and _SeenKeys is not None else None


def repeated_pulls(world: "World", *, wanted: bool) -> "RepeatedPulls | None":
    """Return the compiled way to answer pulls that come again, None where there is none."""
    return RepeatedPulls(world) if wanted and RepeatedPulls is not None else None


refuse_run = _refuse_run
"""The compiled way to refuse plain sends, None where there is none."""


def gather(*, wanted: bool) -> Gather | None:
    """Return the compiled way to copy records for pulls, None where there is none."""
    return _gather if wanted else None


def resident(*, wanted: bool) -> Resident:
    """Return what tells whether mapped memory can be touched without waiting for the disk."""
    if _resident is None or not wanted:
        return resident_bytes
    return _resident


def copied(*, wanted: bool) -> Copied:
    """Return what copies mapped memory, and survives where the disk does not give it."""
    if _copied is None or not wanted:
        return copied_bytes
    return _copied


def guard_copies() -> None:
    """Have compiled copies survive SIGBUS still.

    A program that embeds a broker may switch Python's faulthandler on, or off, which takes away
    what handled the signal before: so this is asked for again and again.
    """
    if _guard_copies is not None:
        _guard_copies()


def is_compiled() -> bool:
    """Say whether there is compiled code to serve sends and pulls."""
    return PlainSends is not None


def description(*, wanted: bool) -> str:
    """Say which code serves plain sends and pulls; `wanted` is the setting."""
    if not is_compiled():
        return "Python, since nothing was compiled when Aerobee was installed"
    return "compiled code" if wanted else "Python, as compiledFastPath=false says"
