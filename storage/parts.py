"""What recovery, syncs and retention work on: the log, its queues and its damage, in one store."""

import msgspec

from aerobee.storage.disk.files import Files
from aerobee.storage.log.damage import DamageTable
from aerobee.storage.log.segments import Segments
from aerobee.storage.queues.consume_queues import ConsumeQueues
from aerobee.storage.settings import StoreSettings


class StoreParts(msgspec.Struct, frozen=True):
    """One store's log and queues, which begin without any file: `load` finds them."""

    files: Files
    settings: StoreSettings
    segments: Segments
    queues: ConsumeQueues
    damage: DamageTable = msgspec.field(default_factory=DamageTable)

    @classmethod
    def of(cls, files: Files, settings: StoreSettings, *, write: bool) -> "StoreParts":
        """Return the parts of the store that the settings name."""
        segments = Segments(files, settings.log_dir, settings.segment_bytes, write=write)
        return cls(files, settings, segments, ConsumeQueues(files, settings, write=write))

    @property
    def write(self) -> bool:
        """Whether anything of the store may be changed."""
        return self.segments.write

    def close(self) -> None:
        """Close the files of queues and log."""
        self.queues.close()
        self.segments.close()
