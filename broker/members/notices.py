"""NOTIFY_CONSUMER_IDS_CHANGED: tells the members of a group that they have to share queues anew."""

import logging
from collections.abc import Callable
from typing import Final

from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command
from aerobee.remoting.net.connection import Connection

log = logging.getLogger(__name__)

QUIET_S: Final = 0.02

Later = Callable[[float, Callable[[], None]], object]


class ChangeNotices:
    """Sends code 40, one-way, to every member of a changed group.

    A first change is told at the end of the loop's turn; further ones within `QUIET_S` seconds are
    told together after it, so that a thousand consumers that join at once cost thousands of frames
    and not a million (DefaultConsumerIdsChangeListener interrupts its earlier round likewise).
    `later(delay_s, function)` is the loop's call_later; `enabled` is asked each time.
    """

    def __init__(self, later: Later, enabled: Callable[[], bool]) -> None:
        self._later = later
        self._enabled = enabled
        self._due: dict[str, list[Connection]] = {}
        self._quiet: set[str] = set()
        self.sent = 0

    def __call__(self, group: str, members: list[Connection]) -> None:
        """Tell `members` that `group` has changed, soon."""
        waiting = group in self._due or group in self._quiet
        self._due[group] = members
        if not waiting:
            self._later(0, lambda: self._send(group))

    def remind(self, group: str, member: Connection) -> None:
        """Tell one member of a group again, soon."""
        due = self._due.get(group, [])
        if member not in due:
            self(group, [*due, member])

    def _send(self, group: str) -> None:
        self._quiet.discard(group)
        members = self._due.pop(group, None)
        if members is None:
            return
        self._quiet.add(group)
        self._later(QUIET_S, lambda: self._send(group))
        if not self._enabled():
            return
        notice = Command(code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext={"consumerGroup": group})
        for connection in members:
            if connection.closed:
                continue
            try:
                connection.oneway(notice)
            except Exception:  # of this member alone
                log.exception("notice_not_sent group=%s remote=%s", group, connection.remote)
            else:
                self.sent += 1
