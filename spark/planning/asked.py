"""What a query asks for, once it is known of which brokers: values that no planner changes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from aerobee.spark.offsets import EARLIEST, LATEST, Marks, Offsets
from aerobee.spark.options.query import Options
from aerobee.spark.records.selection import Selection, queues_suffice


@dataclass(frozen=True, slots=True)
class Asked:
    """The columns and messages that a batch, or one micro-batch of a stream, is to read.

    `selection` is that of the options, with their topics and queues, narrowed by filters of the
    query. `starting` and `ending` are an offset per queue, or one for all. `marks` tell which
    message stands before the end of a queue's range, where a stream has noted it; None in a batch.
    """

    options: Options
    columns: Sequence[str]
    selection: Selection
    starting: Offsets | int = EARLIEST
    ending: Offsets | int = LATEST
    marks: Marks | None = None

    @classmethod
    def of_brokers(
        cls,
        options: Options,
        columns: Sequence[str],
        selection: Selection,
        brokers: Collection[str],
    ) -> Asked:
        """What a batch asks of brokers, or stores, of these names. Raises OptionError."""
        return cls(
            options,
            columns,
            replace(selection, choice=options.choice(brokers)),
            options.starting_offsets(brokers),
            options.ending_offsets(brokers),
        )

    @property
    def by_offset(self) -> bool:
        """Whether offsets or queues are named, which a log without ConsumeQueues does not tell."""
        bounded = (self.starting, self.ending) != (EARLIEST, LATEST)
        return bounded or self.selection.choice.queues is not None

    @property
    def queues_suffice(self) -> bool:
        """Whether the ConsumeQueues tell all that is asked for."""
        return queues_suffice(self.columns, self.selection, verify_crc=self.options.verify_crc)

    @property
    def queues_lead(self) -> bool:
        """Whether the ConsumeQueues are looked at; else the log itself is better read."""
        selection = self.selection
        narrow = selection.choice.limited or selection.topics is not None
        return self.led_surely or narrow

    @property
    def led_surely(self) -> bool:
        """Whether the queues lead even where that means to read most of the log."""
        return self.by_offset or self.queues_suffice or self.selection.tag_hashes is not None
