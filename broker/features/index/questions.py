"""Questions for messages by their keys (12): QueryMessageProcessor's words, bounded answers."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Final

from aerobee.broker.cold.parts import Cold
from aerobee.broker.features.index.indexing import Indexing
from aerobee.broker.features.index.turns import AskersTurns, TooManyWaitError
from aerobee.broker.settings.live import Live
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.query import QueryMessageReply, QueryMessageRequest
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.routes import Outcome, Reply, Request
from aerobee.storage.features.index.indexer import Indexer
from aerobee.storage.features.index.keys import IndexType
from aerobee.storage.features.index.lookups import KeyLookup, LookupBudget, Question, positions
from aerobee.storage.features.index.sums import DamagedIndexError
from aerobee.storage.reads.cold.file_lookup import FileLookup
from aerobee.storage.store import MessageStore

log = logging.getLogger(__name__)

QUESTIONS: Final = "questions by key"
"""Whose turn it is among the groups that wait for the disk: one question at a time is looked up."""
SLICE_S: Final = 0.02
"""So long one is looked up before those of other connections have their turns."""
ANSWER_WITHIN_S: Final = 5.0
"""Clients wait for six seconds."""
WAITING_OF_ONE_MAX: Final = 64
WAITING_MAX: Final = 1024

UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
KEY_CHARS_MAX: Final = 32_767
REPLY_BYTES_MAX: Final = 15 << 20
"""Clients take frames of 16 MiB."""
FRESH_TRIES: Final = 25
FRESH_WAIT_S: Final = 0.02
_KINDS: Final[dict[str, IndexType]] = {"K": "K", "U": "U", "T": "T"}


class Questions:
    """Answers from the index, in a thread that may wait for the disk.

    `offer` has the index follow the log as it is now.
    """

    def __init__(
        self, live: Live, store: MessageStore, cold: Cold, indexer: Indexer, indexing: Indexing
    ) -> None:
        self._live = live
        self._store = store
        self._cold = cold
        self._indexer = indexer
        self._indexing = indexing
        self.offer: Callable[[], object] = lambda: None
        self._turns = AskersTurns(WAITING_OF_ONE_MAX, WAITING_MAX)
        self.asked = 0
        self.cut_short = 0  # answers that may lack something: see LookupBudget
        self.damage: str | None = None  # that a question has met last

    async def query(self, _: object, request: Request[QueryMessageRequest]) -> Outcome:
        """Return the newest messages with a key, whole, in the order of the log."""
        header = request.header
        settings = self._live.current
        unique = request.command.ext.get(UNIQUE_KEY_QUERY, "").lower() == "true"
        wanted = settings.default_query_max_num if unique else header.max_num
        if len(header.key) > KEY_CHARS_MAX or len(header.topic) > KEY_CHARS_MAX:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"a key has at most {KEY_CHARS_MAX} characters"
            )
        kind: IndexType = "U" if unique else _KINDS.get(header.index_type or "K", "K")
        question = Question(
            header.topic, header.key, kind, header.begin_timestamp, header.end_timestamp,
            min(max(0, wanted), settings.max_msgs_num_batch),
            self._store.queues.shown_from(header.topic),
        )  # fmt: skip
        self.asked += 1
        await self._be_fresh()
        budget = LookupBudget()
        records: list[bytes] = []
        if question.messages_max:
            records = await self._look_up(question, budget, request.connection)
        self.cut_short += budget.spent
        last = self._indexer.last_header
        told = QueryMessageReply(
            index_last_update_timestamp=last.end_ms, index_last_update_phyoffset=last.end_position
        )
        if not records:
            if (error := self._indexing.error) is not None:
                raise RequestError(ResponseCode.SYSTEM_ERROR, error)
            return Reply(told, code=ResponseCode.QUERY_NOT_FOUND, remark=_not_found(budget))
        return Reply(told, b"".join(records))

    async def _look_up(
        self, question: Question, budget: LookupBudget, connection: Connection
    ) -> list[bytes]:
        """Look a question up in slices; connections that ask at the same time take turns."""
        index, until_s = self._indexer.newest_first(), monotonic() + ANSWER_WITHIN_S
        files, shape = self._store.files, self._indexer.shape
        found_at = positions(files, shape, index, question, budget)
        lookup = KeyLookup(found_at, question, budget, REPLY_BYTES_MAX)
        while not connection.closed and monotonic() < until_s:
            try:
                async with self._turns.turn(connection):
                    found = await self._cold.reads.run(
                        QUESTIONS, partial(self._slice, lookup), REPLY_BYTES_MAX
                    )
            except TooManyWaitError:
                break
            except DamagedIndexError as error:
                raise RequestError(ResponseCode.SYSTEM_ERROR, self._met(error)) from error
            if found is not None:
                return found
        raise RequestError(
            ResponseCode.SYSTEM_BUSY, "too many ask the broker for messages by key at this moment"
        )

    def _met(self, error: DamagedIndexError) -> str:
        """Note what is damaged; others' keys may be found all the same."""
        text = str(error)
        if text != self.damage:
            log.error("index_damaged reason=%r", text)
        self.damage = text
        return text

    def _slice(self, lookup: KeyLookup) -> list[bytes] | None:
        store, settings = self._store, self._store.settings
        log_now = FileLookup(store.files, store.commit_log.snapshot(), settings.root, 1)
        return lookup.go_on(log_now.read, SLICE_S)

    async def _be_fresh(self) -> None:
        """Wait for the index to have what was stored before the question, half a second at most."""
        self._store.commit_log.commit()
        end = self._store.commit_log.committed
        for _ in range(FRESH_TRIES):
            self.offer()
            if self._indexing.position >= end or self._indexing.error is not None:
                return
            await asyncio.sleep(FRESH_WAIT_S)


def _not_found(budget: LookupBudget) -> str:
    """RocketMQ's words, and why there might be something all the same."""
    found = "can not find message, maybe time range not correct"
    return f"{found} (too many entries share its hash: narrow it)" if budget.spent else found
