"""What hand-overs say to members, and ask them: notices (40), and what they hold (307)."""

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from aerobee.broker.handover.environment import Holdings
from aerobee.broker.health.faults import Faults
from aerobee.broker.members.notices import ChangeNotices
from aerobee.broker.members.registry import Members
from aerobee.remoting.bodies import ConsumerRunningInfo, decode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.headers.heartbeat import ConsumerRunningInfoRequest
from aerobee.remoting.headers.typed import encode_header
from aerobee.remoting.net.connection import Connection

log = logging.getLogger(__name__)

HOLDINGS_TIMEOUT_S: Final = 2.0
HOLDINGS_BYTES_MAX: Final = 1 << 20  # some 3,000 queues, 25 ms of the loop's time


class MemberCalls:
    """Reaches the members of groups, none of which has to answer.

    `start` runs what has to wait for an answer; `faults` counts what nobody foresaw; of what a
    member holds only queues of `broker_name` are read.
    """

    def __init__(
        self,
        members: Members,
        notices: ChangeNotices,
        start: Callable[[Coroutine[Any, Any, None]], object],
        faults: Faults,
        broker_name: str,
    ) -> None:
        self._members = members
        self._notices = notices
        self._start = start
        self._faults = faults
        self._broker_name = broker_name

    def notify(self, group: str, members: list[Connection]) -> None:
        """Tell members that their group has changed (40)."""
        self._notices(group, members)

    def remind(self, connection: Connection, group_name: str) -> None:
        """Let one member share queues at once (40), if its group hears of changes at all."""
        group = self._members.group(group_name)
        if group is not None and group.notified and connection in group.members:
            self._notices.remind(group_name, connection)

    def caught(self, what: str, error: Exception, client_id: str) -> None:
        """Count a fault that nobody foresaw, of one member alone."""
        self._faults.caught(what, error, client_id=client_id)

    def ask_holdings(
        self, connection: Connection, group: str, answered: Callable[[Holdings | None], None]
    ) -> None:
        """Ask a member what it holds (307); `answered` gets None where it does not say.

        So does who says it in more than HOLDINGS_BYTES_MAX: reading that would hold up others.
        """
        self._start(self._ask_holdings(connection, group, answered))

    async def _ask_holdings(
        self, connection: Connection, group_name: str, answered: Callable[[Holdings | None], None]
    ) -> None:
        group = self._members.group(group_name)
        member = group.members.get(connection) if group is not None else None
        client_id = member.client.client_id if member is not None else ""
        holdings = None
        try:
            if member is not None:
                holdings = await self._holdings(connection, group_name, client_id)
        except AerobeeError as error:
            log.warning("no_holdings group=%s client=%s error=%s", group_name, client_id, error)
        except Exception:  # or who asked would wait for ever, and never ask this member again
            log.exception("no_holdings group=%s client=%s", group_name, client_id)
        answered(holdings)

    async def _holdings(
        self, connection: Connection, group_name: str, client_id: str
    ) -> Holdings | None:
        header = ConsumerRunningInfoRequest(consumer_group=group_name, client_id=client_id)
        command = Command(code=RequestCode.GET_CONSUMER_RUNNING_INFO, ext=encode_header(header))
        reply = await connection.call(command, HOLDINGS_TIMEOUT_S)
        if reply.code != ResponseCode.SUCCESS or len(reply.body) > HOLDINGS_BYTES_MAX:
            return None
        return Holdings.of(decode_body(ConsumerRunningInfo, reply.body), self._broker_name)
