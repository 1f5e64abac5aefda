"""CHECK_TRANSACTION_STATE: one living producer of a group is asked about a half message."""

import logging
from itertools import islice
from typing import Final

from msgspec.structs import replace

from aerobee.broker.features.transactions.halves import Half
from aerobee.broker.members.registry import Members
from aerobee.broker.settings.live import Live
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.headers.transactions import CheckTransactionStateRequest
from aerobee.remoting.headers.typed import encode_header
from aerobee.remoting.message.record import Record, encode_record
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.words import HALF_TOPIC

log = logging.getLogger(__name__)

TRIES_MAX: Final = 3
GROUPS_MAX: Final = 10_000  # whose turns are remembered


class Asking:
    """Sends 39, one-way, to the producers of a group in turn (DefaultTransactionalMessage...)."""

    def __init__(self, live: Live, members: Members, id_prefix: str) -> None:
        self._live = live
        self._members = members
        self._id_prefix = id_prefix
        self._turns: dict[str, int] = {}

    def has_room(self, group: str, topic: str) -> bool:
        """Whether a question about a topic would be read soon, or nobody is there to ask.

        False while all of its producers have much that they have not taken from the broker: it is
        worth nothing to add to that, and a connection ends that has too much of it.
        """
        connections = self._members.producers_of(group, topic)
        return not connections or any(each.takes_more for each in connections)

    def ask(self, half: Half, record: Record) -> None:
        """Ask about a half, if somebody is there; `record` is any of its records."""
        connections = self._members.producers_of(half.key.group, half.key.topic)
        if not connections:
            log.warning("nobody_to_ask group=%s topic=%s key=%s",
                        half.key.group, half.key.topic, half.key.unique_key)  # fmt: skip
            return
        command = self._command(half, record)
        in_turn = self._in_turn(half.key.group, connections)
        ready = (connection for connection in in_turn if connection.takes_more)
        for connection in [*islice(ready, TRIES_MAX)] or in_turn[:TRIES_MAX]:
            try:
                connection.oneway(command)
            except AerobeeError as error:
                log.warning("check_not_sent remote=%s error=%s", connection.remote, error)
            else:
                return

    def _in_turn(self, group: str, connections: list[Connection]) -> list[Connection]:
        if len(self._turns) > GROUPS_MAX:
            self._turns.clear()
        turn = self._turns.get(group, -1) + 1
        self._turns[group] = turn
        first = turn % len(connections)
        return connections[first:] + connections[:first]

    def _command(self, half: Half, record: Record) -> Command:
        header = CheckTransactionStateRequest(
            topic=HALF_TOPIC,
            tran_state_table_offset=half.offset,
            commit_log_offset=half.position,
            msg_id=half.key.unique_key,
            transaction_id=half.key.unique_key,
            offset_msg_id=f"{self._id_prefix}{half.position:016X}",
        )
        shown = replace(
            record,
            topic=half.key.topic,
            queue_id=half.queue_id,
            queue_offset=half.offset,
            position=half.position,
        )
        ext = encode_header(header) | {"bname": self._live.current.broker_name}
        return Command(code=RequestCode.CHECK_TRANSACTION_STATE, ext=ext, body=encode_record(shown))
