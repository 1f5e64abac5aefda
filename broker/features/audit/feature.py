"""The audit log as a feature: each change that an operator makes is noted."""

from collections.abc import Iterator, Mapping

from aerobee.broker.features.feature import Feature
from aerobee.broker.room import Sample
from aerobee.broker.start.context import Context
from aerobee.remoting.net.access.audit import AuditLog


class Audit(Feature):
    """Has the log, which `Context.audit` hands to who knows of changes and refusals."""

    def __init__(self, context: Context) -> None:
        self.log = context.audit = AuditLog(context.settings, context.settings.broker_name)

    def close(self) -> OSError | None:
        """Write what waits."""
        self.log.close()
        return None

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell how much is noted, and what is not."""
        return {
            "aerobee_audit_lines_total": "Changes and refusals that were noted",
            "aerobee_audit_lines_lost_total": "Lines that are not in the audit log",
        }

    def samples(self) -> Iterator[Sample]:
        """Yield how many."""
        yield Sample("aerobee_audit_lines_total", self.log.lines)
        yield Sample("aerobee_audit_lines_lost_total", self.log.lost)

    def degraded(self) -> Iterator[str]:
        """Say that the log has gaps."""
        if lost := self.log.lost:
            yield f"{lost} lines of the audit log are lost: its disk does not take them"


make = Audit
