"""One version of an export's manifest: which files and queue offsets a run has added.

A version is a JSON file that is never changed. The last one says how far every queue is
exported; all of them together, from the last that replaces its forerunners on, which files count.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import PurePosixPath
from typing import Any

from aerobee.spark.errors import ExportFailed, ExportRefused
from aerobee.spark.lake.folders import NAME_BYTES_MAX, fitting
from aerobee.spark.offsets import BrokerQueue, Offsets, QueueRange, format_offsets, parse_offsets
from aerobee.spark.records.columns import PROPERTIES

LAYOUT = 1  # of the manifest's own JSON
CHECKSUM = "crc32"  # of all the rest; early versions have none
NO_QUEUE = -1  # in place of a queue's number, where only a log position is known


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
    """Messages of one queue that a run was to export and did not find, and why.

    Where a damaged log does not tell the queue, its number is NO_QUEUE, and the range one of log
    positions. An empty range says that from there on the queue has other messages than before.
    """

    missing: QueueRange
    reason: str

    @classmethod
    def of_log(cls, broker: str, start: int, end: int, reason: str) -> Gap:
        """What stood in a stretch of a broker's log, whatever it was."""
        return cls(QueueRange(BrokerQueue(broker, "", NO_QUEUE), start, end), reason)

    @property
    def lost(self) -> bool:
        """Whether any message is missing."""
        return self.missing.start < self.missing.end

    def __str__(self) -> str:
        key, start, end = self.missing.key, self.missing.start, self.missing.end
        if key.queue_id == NO_QUEUE:
            return f"log positions [{start}, {end}) of {key.broker}: {self.reason}"
        return f"{self.missing if self.lost else f'{key} from {start} on'}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one run added, and how far the export had come with it.

    `offsets` are the next ones to export, of every queue ever seen; `positions` and `stamps` the
    log positions and store timestamps (ms) of the messages before them, by which a store that was
    made anew is told; -1 is unknown, and early versions have no stamps. `properties` is what that
    column is, map (also of early versions, which do not say) or binary. `stores` are paths by
    label, `unnumbered` those without ConsumeQueues, whose messages have no offsets here. `covered`
    are log positions by label, before which the export has all of the queues in `offsets` (unknown
    where there is none), `deleted` queues that the stores have no more, which was told.
    """

    version: int
    run: str
    made: str
    format: str
    stores: dict[str, str]
    offsets: Offsets
    positions: Offsets = field(default_factory=dict)
    stamps: Offsets = field(default_factory=dict)
    files: tuple[ExportedFile, ...] = ()
    gaps: tuple[Gap, ...] = ()
    unnumbered: tuple[str, ...] = ()
    properties: str = PROPERTIES[0]
    replaces: bool = False
    covered: dict[str, int] = field(default_factory=dict)
    deleted: frozenset[BrokerQueue] = frozenset()

    def encode(self) -> bytes:
        """The manifest as JSON. Raises ExportFailed for one that could not be read back."""
        text = self._text()
        try:
            reason = "" if Manifest.decode(text, "it") == self else "it says something else"
        except ExportRefused as error:
            reason = str(error)
        if reason:
            raise ExportFailed(
                f"the manifest cannot be read back, so nothing is exported: {reason}"
            )
        return text

    def _text(self) -> bytes:
        values = {
            "aerobee_export": LAYOUT,
            "version": self.version,
            "run": self.run,
            "made": self.made,
            "format": self.format,
            "properties": self.properties,
            "replaces": self.replaces,
            "stores": self.stores,
            "unnumbered": list(self.unnumbered),
            "offsets": json.loads(format_offsets(self.offsets)),
            "positions": json.loads(format_offsets(self.positions)),
            "stamps": json.loads(format_offsets(self.stamps)),
            "covered": self.covered,
            "deleted": [list(key) for key in sorted(self.deleted)],
            "gaps": [_gap_values(gap) for gap in self.gaps],
            "files": [asdict(file) for file in self.files],
        }
        values[CHECKSUM] = _checksum(values)
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
            _check_sum(values)
            manifest = cls(
                version=int(values["version"]),
                run=str(values["run"]),
                made=str(values["made"]),
                format=str(values["format"]),
                properties=_properties(values.get("properties", PROPERTIES[0])),
                replaces=bool(values["replaces"]),
                stores={str(label): str(path) for label, path in values["stores"].items()},
                unnumbered=tuple(map(str, values["unnumbered"])),
                offsets=_offsets(values["offsets"]),
                positions=_offsets(values["positions"]),
                stamps=_offsets(values.get("stamps", {})),
                covered={str(key): int(at) for key, at in values.get("covered", {}).items()},
                deleted=frozenset(map(_key, values.get("deleted", ()))),
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


_NAMES = {"aerobee_export", *(each.name for each in fields(Manifest))}


def _checksum(values: Mapping[str, Any]) -> int:
    """Of what is said, however it is written: who formats a manifest anew has not changed it."""
    said = {name: value for name, value in values.items() if name != CHECKSUM}
    return zlib.crc32(json.dumps(said, sort_keys=True, separators=(",", ":")).encode())


def _check_sum(values: Mapping[str, Any]) -> None:
    """Raise ValueError where a bit has flipped, in the name of the checksum as anywhere else."""
    if CHECKSUM in values:
        if values[CHECKSUM] != _checksum(values):
            raise ValueError(f"{CHECKSUM} is not that of its content")
    elif unknown := values.keys() - _NAMES:
        raise ValueError(f"there is no {CHECKSUM}, and nobody knows {', '.join(sorted(unknown))}")


def _file(values: Mapping[str, Any]) -> ExportedFile:
    file = ExportedFile(**values)
    if (
        isinstance(file.path, str)
        and len(file.path.encode(errors="surrogateescape")) > NAME_BYTES_MAX
    ):
        # an early version may name a folder that could not be made: it gets the place it has now
        path = "/".join(map(fitting, file.path.split("/")))
        file = replace(file, path=path)
    texts = (file.path, file.staged, file.topic, file.date)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"the names of {values} are no texts")
    numbers = (file.rows, file.bytes, file.first_ms, file.last_ms)
    if not all(isinstance(number, int) for number in numbers) or min(file.rows, file.bytes) < 0:
        raise TypeError(f"the numbers of {values} are none")
    return file


def _properties(value: Any) -> str:
    if value not in PROPERTIES:
        raise ValueError(f"properties are {value!r}")
    return str(value)


def _outside(path: Any) -> bool:
    parts = PurePosixPath(path).parts if isinstance(path, str) else ()
    return not parts or parts[0] == "/" or ".." in parts


def _offsets(values: Mapping[str, Any]) -> Offsets:
    return parse_offsets(json.dumps(values), where="offsets")


def _key(values: Sequence[Any]) -> BrokerQueue:
    broker, topic, queue_id = values
    return BrokerQueue(str(broker), str(topic), int(queue_id))


def _gap_values(gap: Gap) -> dict[str, Any]:
    key, start, end = gap.missing.key, gap.missing.start, gap.missing.end
    return {**key._asdict(), "start": start, "end": end, "reason": gap.reason}


def _gap(values: Mapping[str, Any]) -> Gap:
    key = BrokerQueue(str(values["broker"]), str(values["topic"]), int(values["queue_id"]))
    missing = QueueRange(key, int(values["start"]), int(values["end"]))
    return Gap(missing, str(values["reason"]))
