"""One broker is asked for what matches, page by page, until it has no more."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

import msgspec

from aerobee.client.cluster.connections import Connections
from aerobee.client.errors import BrokerRefused
from aerobee.client.finding.found import decode_found
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import AerobeeError, CallTimedOut, ConnectionLost, Unavailable
from aerobee.remoting.headers.query import QueryMessageRequest
from aerobee.remoting.headers.typed import encode_header

PAGE_MESSAGES: Final = 64  # maxMsgsNumBatch, the most that brokers give at a time ...
PAGE_MESSAGES_MIN: Final = 32  # ... unless told otherwise: fewer than this are all that there are
PAGES_MAX: Final = 1_000
SECOND_MS: Final = 1_000  # in which index entries are not told apart
ANY_TIME_MS: Final = 2**63 - 1


class KeySearch(msgspec.Struct, frozen=True):
    """What is looked for: `matches` decides, for brokers compare hashes of keys.

    `begin_ms` and `end_ms` are store times since 1970, both included.
    """

    topic: str
    key: str
    index_type: str
    matches: Callable[[ReceivedMessage], bool]
    messages_max: int
    begin_ms: int = 0
    end_ms: int = ANY_TIME_MS


class BrokerAnswers:
    """What one broker has answered so far; it is `done` when it has told all that it has.

    `complete` turns False where the index may hold more than it could be made to tell.
    """

    def __init__(self, broker_name: str, question: KeySearch) -> None:
        self.broker_name = broker_name
        self.found: dict[int, ReceivedMessage] = {}  # by position
        self.complete = True
        self.done = False
        self.error: AerobeeError | None = None
        self._question = question
        self._seen: set[int] = set()

    async def ask(
        self, connections: Connections, addresses: Sequence[str], deadline_s: float
    ) -> None:
        """Ask the broker, at its other addresses where one is silent; `error` says what failed."""
        for address in addresses:
            try:
                await self._ask_at(connections, address, deadline_s)
            except Unavailable as error:
                self.error = error
            except AerobeeError as error:
                self.error = error
                return
            else:
                self.done, self.error = True, None
                return

    async def _ask_at(self, connections: Connections, address: str, deadline_s: float) -> None:
        question = self._question
        page, end_ms, most = PAGE_MESSAGES, question.end_ms, 0
        for _ in range(PAGES_MAX):
            try:
                records = await self._page(connections, address, page, end_ms, deadline_s)
            except ConnectionLost:
                if page == 1:
                    raise
                page = max(1, page // 8)  # it may have been too much for one frame
                continue
            new = [each for each in records if each.position not in self._seen]
            self._seen.update(each.position for each in new)
            self.found.update({each.position: each for each in new if self._wants(each)})
            if len(records) < min(page, PAGE_MESSAGES_MIN) or (not new and len(records) < most):
                return
            most = max(most, len(records))
            if len(self.found) >= question.messages_max:
                break
            oldest_ms = min(each.store_timestamp_ms for each in records)
            if not new:  # more of one second than a page holds: the index tells no more of them
                self.complete = False
                oldest_ms = min(oldest_ms, end_ms) - SECOND_MS
            if oldest_ms < question.begin_ms:
                return
            end_ms = oldest_ms
        self.complete = False

    async def _page(
        self, connections: Connections, address: str, page: int, end_ms: int, deadline_s: float
    ) -> list[ReceivedMessage]:
        left_ms = int((deadline_s - monotonic()) * 1000)
        if left_ms <= 0:
            raise CallTimedOut(f"{address}: the time of the search is up")
        question = self._question
        header = QueryMessageRequest(
            topic=question.topic,
            key=question.key,
            max_num=page,
            # entries have the time of their message rounded down
            begin_timestamp=max(0, question.begin_ms - SECOND_MS),
            end_timestamp=end_ms,
            index_type=question.index_type,
        )
        reply = await connections.call(
            address, RequestCode.QUERY_MESSAGE, encode_header(header), timeout_ms=left_ms
        )
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            return []
        if reply.code != ResponseCode.SUCCESS:
            raise BrokerRefused(reply.code, reply.remark, address)
        return decode_found(reply.body, self.broker_name)

    def _wants(self, message: ReceivedMessage) -> bool:
        question = self._question
        return (
            message.queue.topic == question.topic
            and question.begin_ms <= message.store_timestamp_ms <= question.end_ms
            and question.matches(message)
        )
