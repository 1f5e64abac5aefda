"""One version of an export's manifest: which files and queue offsets a run has added.

A version is a JSON file that is never changed. The last one says how far every queue is
exported; all of them together, from the last that replaces its forerunners on, which files count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any

from aerobee.spark.errors import ExportRefused
from aerobee.spark.offsets import Offsets, QueueKey, QueueRange, format_offsets, parse_offsets

LAYOUT = 1  # of the manifest's own JSON


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """One file of an export: its path below the lake, where it was staged, what it holds.

    `date` is a UTC day; the store timestamps of its messages, in ms, span `first_ms` to `last_ms`.
    """

    path: str
    staged: str
    topic: str
    date: str
    rows: int
    bytes: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages of one queue that a run was to export and did not find, and why."""

    missing: QueueRange
    reason: str

    def __str__(self) -> str:
        return f"{self.missing}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one run added, and how far the export had come with it.

    `offsets` are the next ones to export, of every queue ever seen; `positions` the log positions
    of the messages before them, by which a store that was made anew is told. `stores` are paths
    by label, `unnumbered` those without ConsumeQueues, whose messages have no offsets here.
    """

    version: int
    run: str
    made: str
    format: str
    stores: dict[str, str]
    offsets: Offsets
    positions: Offsets = field(default_factory=dict)
    files: tuple[ExportedFile, ...] = ()
    gaps: tuple[Gap, ...] = ()
    unnumbered: tuple[str, ...] = ()
    replaces: bool = False

    def encode(self) -> bytes:
        """The manifest as JSON."""
        values = {
            "aerobee_export": LAYOUT,
            "version": self.version,
            "run": self.run,
            "made": self.made,
            "format": self.format,
            "replaces": self.replaces,
            "stores": self.stores,
            "unnumbered": list(self.unnumbered),
            "offsets": json.loads(format_offsets(self.offsets)),
            "positions": json.loads(format_offsets(self.positions)),
            "gaps": [_gap_values(gap) for gap in self.gaps],
            "files": [asdict(file) for file in self.files],
        }
        return json.dumps(values, indent=1).encode() + b"\n"

    @classmethod
    def decode(cls, text: bytes, name: str) -> Manifest:
        """The manifest in a file called `name`. Raises ExportRefused."""
        try:
            values = json.loads(text)
            if values["aerobee_export"] != LAYOUT:
                raise ExportRefused(
                    f"{name} was written by a later version of this program (layout"
                    f" {values['aerobee_export']}, known is {LAYOUT}): use that one"
                )
            manifest = cls(
                version=int(values["version"]),
                run=str(values["run"]),
                made=str(values["made"]),
                format=str(values["format"]),
                replaces=bool(values["replaces"]),
                stores={str(label): str(path) for label, path in values["stores"].items()},
                unnumbered=tuple(map(str, values["unnumbered"])),
                offsets=_offsets(values["offsets"]),
                positions=_offsets(values["positions"]),
                gaps=tuple(_gap(each) for each in values["gaps"]),
                files=tuple(map(_file, values["files"])),
            )
        except ExportRefused:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ExportRefused(
                f"{name} is damaged ({type(error).__name__}: {error}): restore it, or export to"
                " another folder"
            ) from error
        for file in manifest.files:
            for path in (file.path, file.staged):
                if _outside(path):
                    raise ExportRefused(f"{name} names {path!r}, outside of its folder: not ours")
        if _outside(manifest.run) or "/" in manifest.run:
            raise ExportRefused(f"{name} has {manifest.run!r} for its run: not ours")
        return manifest


def _file(values: Mapping[str, Any]) -> ExportedFile:
    file = ExportedFile(**values)
    texts = (file.path, file.staged, file.topic, file.date)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"the names of {values} are no texts")
    numbers = (file.rows, file.bytes, file.first_ms, file.last_ms)
    if not all(isinstance(number, int) for number in numbers) or min(file.rows, file.bytes) < 0:
        raise TypeError(f"the numbers of {values} are none")
    return file


def _outside(path: Any) -> bool:
    parts = PurePosixPath(path).parts if isinstance(path, str) else ()
    return not parts or parts[0] == "/" or ".." in parts


def _offsets(values: Mapping[str, Any]) -> Offsets:
    return parse_offsets(json.dumps(values), where="offsets")


def _gap_values(gap: Gap) -> dict[str, Any]:
    key, start, end = gap.missing.key, gap.missing.start, gap.missing.end
    return {**key._asdict(), "start": start, "end": end, "reason": gap.reason}


def _gap(values: Mapping[str, Any]) -> Gap:
    key = QueueKey(str(values["broker"]), str(values["topic"]), int(values["queue_id"]))
    missing = QueueRange(key, int(values["start"]), int(values["end"]))
    return Gap(missing, str(values["reason"]))
