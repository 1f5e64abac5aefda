"""How far lite pull consumers of other projects are: they are asked (307), for nothing shows it.

A lite pull consumer commits by a timer what it has handed to its user, some seconds late; its
pulls carry no offset, and a queue that it loses begins anew at its last commit. While its pulls
wait, what it holds of a queue says how far it is: nothing means that all it has fetched was handed
out. What was handed out before its latest batch is done, for its user has polled again; the broker
commits that, as the client itself would have at that poll with `autoCommit`. Without, nothing is
committed for anybody.
"""

import logging
from collections.abc import Callable

from aerobee.broker.handover.environment import Environment, Holdings
from aerobee.broker.handover.owned_queue import OwnedQueue
from aerobee.broker.handover.owners import QueueOwners
from aerobee.broker.members.registry import Members
from aerobee.broker.members.subscriptions import ALL, is_tag_type
from aerobee.remoting.net.connection import Connection

log = logging.getLogger(__name__)

Finished = Callable[[OwnedQueue], None]


class LitePullProgress:
    """Asks consumers what they hold, each once at a time, and commits what they have done."""

    def __init__(self, members: Members, owners: QueueOwners, environment: Environment) -> None:
        self._members = members
        self._owners = owners
        self._environment = environment
        self._asked: set[Connection] = set()

    def __len__(self) -> int:
        return len(self._asked)

    def look(self, connection: Connection, queues: list[OwnedQueue], finished: Finished) -> None:
        """Call `finished` for those queues of one owner of which it holds nothing, if any."""
        if connection in self._asked:
            return
        self._asked.add(connection)
        waits_at = {queue: self._environment.pulls_at(connection, queue.key) for queue in queues}

        def answered(holdings: Holdings | None) -> None:
            self._asked.discard(connection)
            mine = [each for each in queues if each.draining and each.is_owned_by(connection)]
            if holdings is None or not holdings.auto_commit:
                for queue in mine:
                    finished(queue)  # nothing can be done for it
                return
            # a pull that has waited all the while: what came before it was held when it was asked
            still = [
                queue
                for queue in mine
                if self._environment.pulls_at(connection, queue.key) == waits_at[queue]
            ]
            self._take(connection, still, holdings, finished)

        self._environment.ask_holdings(connection, queues[0].key.group, answered)

    def _take(
        self,
        connection: Connection,
        queues: list[OwnedQueue],
        holdings: Holdings,
        finished: Finished,
    ) -> None:
        latest_ms = max((at_ms for _, at_ms in holdings.queues.values()), default=0)
        for queue in queues:
            key = queue.key
            offset = self._environment.pulls_at(connection, key)
            committed = self._environment.committed(key)
            held, at_ms = holdings.queues.get((key.topic, key.queue_id), (1, 0))
            if offset is None or (held and (committed or 0) < offset):
                continue
            if at_ms == latest_ms and (committed or 0) < offset:  # its batch may be under way
                whole = holdings.batch_max and self._wants_all(queue)
                offset = max(offset - holdings.batch_max, 0) if whole else committed
            if offset is not None and offset > (committed or 0):
                self._environment.commit(key, offset)
                queue.take_from(offset)  # its own commits are behind this for some seconds
                self._owners.link(queue, connection)
            finished(queue)

    def _wants_all(self, queue: OwnedQueue) -> bool:
        """Whether a group filters nothing, so that a batch is a range of offsets."""
        wanted = self._members.subscription(queue.key.group, queue.key.topic)
        return (
            wanted is not None
            and is_tag_type(wanted.expression_type)
            and (wanted.sub_string or ALL) == ALL
        )
