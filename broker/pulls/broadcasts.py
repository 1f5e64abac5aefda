"""Where each member of a broadcasting group pulls: kept for proxies (BroadcastOffsetManager).

Members of such a group keep their offsets themselves. A proxy cannot, for its clients change from
one proxy to another, or dial the broker: so it asks with the offset -1 and is told where that
client was. What all members of a group have passed is committed under the name `GROUP@broadcast`,
for those of whom nothing is known. A plain client sees of this only that its first pull after it
came through a proxy is sent to where it was.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from aerobee.broker.members.group import ConsumerGroup
from aerobee.broker.tables.committed import SEPARATOR, OffsetTable
from aerobee.remoting.headers.pull import PullMessageRequest
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.words import BROADCASTING, CONSUME_PASSIVELY
from aerobee.storage.store import MessageStore

if TYPE_CHECKING:
    from aerobee.broker.members.registry import Members

FROM_PROXY: Final = 1  # RequestSource.PROXY_FOR_BROADCAST
COMMIT_INTERVAL_MS: Final = 5000
CLIENTS_MAX: Final = 20_000  # a proxy may name as many as it likes
ONLINE_EXPIRY_MS: Final = 300_000  # broadcastOffsetExpireMaxSecond
OFFLINE_EXPIRY_MS: Final = 120_000  # broadcastOffsetExpireSecond


class ClientOffsets(msgspec.Struct):
    """Where one client is in one topic; offsets only grow."""

    from_proxy: bool
    heard_ms: int
    queues: dict[int, int] = msgspec.field(default_factory=dict)


class BroadcastOffsets:
    """The offsets of broadcasting members, by topic and group; clock injected.

    `initial` and `pulled` are for pulls of `groups`, those that are connected and broadcast, and
    for those whose request source is FROM_PROXY; others cost nothing.
    """

    def __init__(
        self,
        members: "Members",
        offsets: OffsetTable,
        store: MessageStore,
        now_ms: Callable[[], int],
    ) -> None:
        self.groups: set[str] = set()  # groups that are connected
        self._members = members
        self._offsets = offsets
        self._store = store
        self._now_ms = now_ms
        self._clients: dict[tuple[str, str], dict[str, ClientOffsets]] = {}
        self._count = 0
        self._committed_ms = now_ms()
        members.watchers.append(self)

    def joined(self, connection: Connection, group: str) -> None:
        """A member has come; `changed` follows."""

    def left(self, connection: Connection, group: str) -> None:
        """A member has gone; `changed` follows."""

    def rebalanced(self, connection: Connection, group: str, topics: list[str]) -> None:
        """Broadcasting members share out nothing."""

    def changed(self, group: str) -> None:
        """A group has come, gone, or become another."""
        known = self._members.group(group)
        if known is not None and _broadcasts(known):
            self.groups.add(group)
        else:
            self.groups.discard(group)

    def initial(self, connection: Connection, header: PullMessageRequest) -> int | None:
        """Return the offset to which a client is sent, None where its own is right."""
        client_id, from_proxy = self._client(connection, header)
        if client_id is None:
            return None
        group, topic = header.consumer_group, header.topic
        clients = self._clients.get((topic, group))
        known = clients.get(client_id) if clients is not None else None
        asks = from_proxy and header.queue_offset < 0
        if known is None:
            return self._begin(None, topic, group, header.queue_id) if asks else None
        if asks or known.from_proxy != from_proxy:
            return self._begin(known, topic, group, header.queue_id)
        return None

    def pulled(
        self, connection: Connection, header: PullMessageRequest, moved_to: int | None
    ) -> None:
        """Note where a client pulls, or where it was sent."""
        client_id, from_proxy = self._client(connection, header)
        if client_id is None:
            return
        now_ms = self._now_ms()
        clients = self._clients.setdefault((header.topic, header.consumer_group), {})
        known = clients.get(client_id)
        if known is None:
            if self._count >= CLIENTS_MAX:
                return
            self._count += 1
            known = clients[client_id] = ClientOffsets(from_proxy, now_ms)
        known.from_proxy, known.heard_ms = from_proxy, now_ms
        offset = header.queue_offset if moved_to is None else moved_to
        known.queues[header.queue_id] = max(known.queues.get(header.queue_id, 0), offset)
        if now_ms - self._committed_ms >= COMMIT_INTERVAL_MS:
            self._committed_ms = now_ms
            self._commit(now_ms)

    def _client(
        self, connection: Connection, header: PullMessageRequest
    ) -> tuple[str | None, bool]:
        """Return who pulls, None where it is no member that broadcasts; and whether by a proxy."""
        if header.request_source == FROM_PROXY:
            return header.proxy_froward_client_id, True
        group = self._members.group(header.consumer_group)
        if group is None or not _broadcasts(group):
            return None, False
        member = group.members.get(connection)
        return (member.client.client_id if member is not None else None), False

    def _begin(self, known: ClientOffsets | None, topic: str, group: str, queue_id: int) -> int:
        if known is not None and queue_id in known.queues:
            return known.queues[queue_id]
        committed = self._offsets.committed(_common(group), topic, queue_id)
        return self._first_offset(topic, queue_id) if committed is None else committed

    def _first_offset(self, topic: str, queue_id: int) -> int:
        """Return where one begins of whom nothing is known: at the end, or at a start in memory."""
        queue = self._store.find_queue(topic, queue_id)
        if queue is None or queue.max_offset == 0:
            return 0
        first = self._store.reader.position_of(queue, 0) if queue.min_offset == 0 else None
        fresh = first is not None and self._store.in_memory(first)
        return 0 if fresh else queue.max_offset

    def _commit(self, now_ms: int) -> None:
        """Commit what every client of a group has passed; forget those that were silent."""
        for (topic, group), clients in list(self._clients.items()):
            least: dict[int, int] = {}
            online = set(self._members.client_ids(group))
            for client_id, known in list(clients.items()):
                silent_ms = now_ms - known.heard_ms
                if silent_ms < OFFLINE_EXPIRY_MS or client_id in online:
                    for queue_id, offset in known.queues.items():
                        least[queue_id] = min(least.get(queue_id, offset), offset)
                if silent_ms >= (ONLINE_EXPIRY_MS if client_id in online else OFFLINE_EXPIRY_MS):
                    del clients[client_id]
                    self._count -= 1
            if not clients:
                del self._clients[topic, group]
            for queue_id, offset in least.items():
                self._offsets.commit(_common(group), topic, queue_id, offset)


def _broadcasts(group: ConsumerGroup) -> bool:
    return group.message_model == BROADCASTING and group.consume_type == CONSUME_PASSIVELY


def _common(group: str) -> str:
    """Return the name under which the members' common progress is committed."""
    return f"{group}{SEPARATOR}broadcast"
