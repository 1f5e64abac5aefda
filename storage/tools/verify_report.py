"""What a look at a store has found, and how that is said."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

PROBLEMS_SHOWN: Final = 50


@dataclass(slots=True)
class Report:
    """What was looked at and what is wrong; `problems` are sentences with file and place."""

    log_files: int = 0
    begin: int = 0
    end: int = 0
    end_reason: str = ""
    records: int = 0
    queues: int = 0
    entries: int = 0
    deleted_records: int = 0  # of topics that have been deleted since
    unwritten: int = 0  # records whose entries a broker has, or had when it died, in memory
    lost_entries: int = 0  # whose messages the log does not have any more
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0

    def add(self, problem: str) -> None:
        """Note a problem; beyond the first few only the number grows."""
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_SHOWN:
            self.problems.append(problem)


def lines(report: Report) -> Iterator[str]:
    """Describe a report, the problems first."""
    yield from report.problems
    if (hidden := report.problem_count - len(report.problems)) > 0:
        yield f"... and {hidden} more"
    if report.deleted_records:
        yield (
            f"{report.deleted_records} records of deleted topics: no queue has them, and they go"
            " when their log files go"
        )
    if report.unwritten:
        yield f"{report.unwritten} newest records have no queue entry yet: a start writes them"
    if report.lost_entries:
        yield f"{report.lost_entries} messages of queues are lost: their entries are passed over"
    yield (
        f"{report.log_files} log files, {report.records} records at {report.begin} to {report.end};"
        f" {report.queues} queues, {report.entries} entries; {report.problem_count} problems"
    )
