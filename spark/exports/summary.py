"""What an export did, topic by topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from aerobee.spark.exports.plan import ExportPlan
from aerobee.spark.lake.lake import Lake
from aerobee.spark.lake.manifest import ExportedFile, Gap, Manifest


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """What a run added of one topic; times are store timestamps in ms."""

    topic: str
    messages: int
    days: int
    files: int
    bytes: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """What a run did: per topic, and about how much of the log it read (`log_bytes`).

    `version` is the lake's after it. `added` is false where there was nothing new, and the lake
    stayed as it was. `gaps` are messages that were gone before they were exported, or damaged;
    `undispatched_bytes` stand at the log's end and in no queue yet. `waiting` are versions that
    count and could not be brought to where readers look, `away` stores that a pattern named
    earlier and does not find any more.
    """

    store: str
    target: str
    topics: list[TopicSummary]
    log_bytes: int
    seconds: float
    version: int
    added: bool = True
    gaps: tuple[Gap, ...] = ()
    undispatched_bytes: int = 0
    waiting: tuple[str, ...] = ()
    away: tuple[str, ...] = ()

    @property
    def messages(self) -> int:
        """How many messages were written."""
        return sum(topic.messages for topic in self.topics)

    @property
    def files(self) -> int:
        """How many files were written."""
        return sum(topic.files for topic in self.topics)

    @property
    def bytes(self) -> int:
        """How many bytes the files have."""
        return sum(topic.bytes for topic in self.topics)


def summarize(
    store: str, lake: Lake, plan: ExportPlan, manifest: Manifest | None, seconds: float
) -> ExportSummary:
    """The summary of a run that committed `manifest`, or found nothing new."""
    known = plan.base.version if plan.base else 0
    return ExportSummary(
        store,
        str(lake.root),
        by_topic(manifest.files if manifest else ()),
        plan.bytes,
        seconds,
        manifest.version if manifest else known,
        added=manifest is not None,
        gaps=manifest.gaps if manifest else (),
        undispatched_bytes=sum(each.undispatched_bytes for each in plan.stores),
        waiting=tuple(lake.waiting.values()),
        away=plan.away,
    )


def by_topic(files: Iterable[ExportedFile]) -> list[TopicSummary]:
    """The files of each topic together, topics in order."""
    grouped: dict[str, list[ExportedFile]] = defaultdict(list)
    for file in files:
        grouped[file.topic].append(file)
    return [
        TopicSummary(
            topic,
            messages=sum(file.rows for file in files),
            days=len({file.date for file in files}),
            files=len(files),
            bytes=sum(file.bytes for file in files),
            first_ms=min(file.first_ms for file in files),
            last_ms=max(file.last_ms for file in files),
        )
        for topic, files in sorted(grouped.items())
    ]
