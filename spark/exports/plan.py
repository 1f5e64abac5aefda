"""What an export will read: of each store the offsets of each queue, from the manifest's on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from aerobee.spark.at_rest.dispatched import dispatched_end
from aerobee.spark.at_rest.log_files import LogSegment
from aerobee.spark.at_rest.queue_ranges import StoreState
from aerobee.spark.at_rest.stores import Paths, Store, find_stores, has_queues
from aerobee.spark.errors import OptionError
from aerobee.spark.exports.lost import stores_away, tell_gaps
from aerobee.spark.exports.queues import QueuesFound, QueuesLook
from aerobee.spark.exports.reads import is_worthwhile
from aerobee.spark.lake.manifest import Gap, Manifest
from aerobee.spark.offsets import BrokerQueue, Offsets, QueueRange
from aerobee.spark.planning.log_pieces import Piece, log_pieces, piece_bytes, within_time
from aerobee.spark.planning.queue_pieces import (
    QUEUES_PER_WINDOW,
    EntryPiece,
    estimated_bytes,
    plan_ranges,
)
from aerobee.spark.planning.ranges import messages
from aerobee.spark.records.selection import Selection


@dataclass(frozen=True, slots=True)
class StorePlan:
    """What is read of one store: ranges of its queues, or, where it has none, all of its log.

    The ranges' records stand in `segments`, files that follow each other. `undispatched_bytes` of
    the log are in no queue yet: they belong to the next run.
    """

    state: StoreState
    segments: tuple[LogSegment, ...]
    ranges: tuple[QueueRange, ...]
    bytes: int
    undispatched_bytes: int = 0
    numbered: bool = True

    @property
    def store(self) -> Store:
        """The store."""
        return self.state.store

    def pieces(self, selection: Selection, target_bytes: int) -> Sequence[EntryPiece | Piece]:
        """What the tasks read, each about `target_bytes` of the log."""
        if not self.numbered:
            wanted = within_time(self.segments, self.state.end, selection)
            return log_pieces(self.state, wanted, selection, target_bytes)
        parts = max(1, min(-(-self.bytes // target_bytes), messages(self.ranges)))
        many = len(self.ranges) > QUEUES_PER_WINDOW
        along_log = many and is_worthwhile(self.store, self.ranges)
        return plan_ranges(self.store, self.segments, self.ranges, parts, along_log=along_log)


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """What a run reads, and how far the lake will have come with it.

    `covered` and `deleted` are what the manifest says of them, of the stores that were looked at;
    `away` are stores that a pattern does not find any more.
    """

    base: Manifest | None
    selection: Selection
    stores: list[StorePlan]
    offsets: Offsets = field(default_factory=dict)
    positions: Offsets = field(default_factory=dict)
    stamps: Offsets = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    covered: dict[str, int] = field(default_factory=dict)
    deleted: set[BrokerQueue] = field(default_factory=set)
    away: tuple[str, ...] = ()

    @property
    def ranges(self) -> list[QueueRange]:
        """The messages of all queues that have any, by queue."""
        return [each for store in self.stores for each in store.ranges]

    @property
    def messages(self) -> int:
        """How many messages there are to export; of stores without queues nobody knows."""
        return messages(self.ranges)

    @property
    def bytes(self) -> int:
        """About how many bytes of the logs these are."""
        return sum(store.bytes for store in self.stores)

    @property
    def unnumbered(self) -> tuple[str, ...]:
        """The stores that have no ConsumeQueues."""
        return tuple(store.store.label for store in self.stores if not store.numbered)

    @property
    def queues_tell(self) -> bool:
        """Whether no store has messages that are in no queue, of topics that may have none yet."""
        return all(each.numbered and not each.undispatched_bytes for each in self.stores)

    @property
    def moved(self) -> set[BrokerQueue]:
        """The queues of which the run exports, or gives up, messages."""
        return {each.key for each in self.ranges} | {gap.missing.key for gap in self.gaps}

    def pieces(self, cores: int) -> Iterator[tuple[StorePlan, EntryPiece | Piece]]:
        """What the tasks read: some for each core, of large exports a GiB of the log each."""
        target = piece_bytes(self.bytes, cores)
        for store in self.stores:
            for piece in store.pieces(self.selection, target):
                yield store, piece


def plan_export(
    path: Paths,
    selection: Selection,
    base: Manifest | None,
    *,
    fail_on_data_loss: bool = True,
) -> ExportPlan:
    """What to export of the stores that `path` names, after what `base` says is exported.

    Raises OptionError, StoreUnreadable; DataLost where messages went away unexported, unless
    told not to, in which case the plan has them as gaps.
    """
    plan = ExportPlan(base, selection, [])
    gaps: list[Gap] = []
    states = [StoreState.look(store) for store in find_stores(path)]
    if base is not None:
        away = stores_away(path, states, base, fail=fail_on_data_loss)
        states = [state for state in states if state.store.label not in away]
        plan = replace(plan, away=away)
    for state in states:
        store = state.store
        if base is not None and store.label in base.unnumbered:
            raise OptionError(
                f"{store.log_dir} was exported without its ConsumeQueues, so that nobody knows how"
                " far each queue came: export everything again (overwrite), or to another folder"
            )
        empty = store.queues_dir is None and state.end <= state.start
        if not has_queues(store) and not empty:
            _check_unnumbered(state, base)
            segments = tuple(each for each in state.segments if each.base < state.end)
            size = state.end - state.start
            plan.stores.append(StorePlan(state, segments, (), size, numbered=False))
            continue
        dispatched = max(dispatched_end(state), state.start)  # before the look, which may see more
        found = QueuesLook(state, selection, base).look()
        plan.stores.append(_of_queues(state, found, dispatched))
        if found.complete:
            plan.covered[store.label] = dispatched
        plan.deleted.update(found.deleted)
        plan.offsets.update(found.offsets)
        plan.positions.update(found.positions)
        plan.stamps.update(found.stamps)
        gaps += found.gaps
    tell_gaps(gaps, fail=fail_on_data_loss)
    return replace(plan, gaps=tuple(gaps))


def _of_queues(state: StoreState, found: QueuesFound, dispatched: int) -> StorePlan:
    """What is read of a store whose queues have been looked at."""
    ranges = found.ranges
    left = max(0, state.end - dispatched)
    size = min(estimated_bytes(state.store, ranges), max(0, state.end - state.start))
    low, high = found.low, found.high
    segments = tuple(each for each in state.segments if each.end > low and each.base <= high)
    return StorePlan(state, segments if ranges else (), tuple(ranges), size, left)


def _check_unnumbered(state: StoreState, base: Manifest | None) -> None:
    if base is not None:
        raise OptionError(
            f"an incremental export needs the broker's ConsumeQueues (consumequeue beside"
            f" {state.store.log_dir}), and there are none: export to another folder, or overwrite"
        )
