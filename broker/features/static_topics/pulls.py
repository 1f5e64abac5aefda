"""Pulls of logical queues: served from the stretch that has the offset, here or by its broker."""

from typing import Final

from aerobee.broker.features.static_topics.forwarding import OtherBrokers
from aerobee.broker.features.static_topics.mapped import LogicalQueue, MappedTopics, replaced
from aerobee.broker.features.static_topics.pull_replies import Places, as_logical, seen
from aerobee.broker.features.static_topics.stretches import find, physical
from aerobee.broker.pulls.checks import Allowed, PullChecks
from aerobee.broker.pulls.parts import Pulling
from aerobee.broker.pulls.pull import Pull
from aerobee.broker.pulls.repeats import Check
from aerobee.broker.pulls.replies import refusal
from aerobee.broker.pulls.server import MASTER_ID, PullProcessor
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.writing.queues import TopicQueue
from aerobee.remoting.bodies import (
    LogicQueueMappingItem,
    SubscriptionGroupConfig,
    TopicConfig,
    TopicQueueMappingDetail,
)
from aerobee.remoting.codes import PullSysFlag, RequestCode, ResponseCode
from aerobee.remoting.command import FLAG_RESPONSE, Command
from aerobee.remoting.errors import RequestError
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.headers.pull import PullMessageReply, PullMessageRequest
from aerobee.remoting.headers.typed import decode_header, encode_header
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.tasks import Tasks
from aerobee.storage.reads.results import ReadResult

Frames = list[bytes | memoryview]
WHAT: Final = "cannot find mapping item"
WAITS: Final = PullSysFlag.SUSPEND | PullSysFlag.COMMIT_OFFSET
ANSWERS: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)


class LogicalPull(Pull):
    """A pull of a physical queue that stands for one of a logical queue, `asked`."""

    __slots__ = ("asked", "item", "queue")

    def __init__(
        self,
        asked: Pull,
        header: PullMessageRequest,
        queue: LogicalQueue,
        item: LogicQueueMappingItem,
    ) -> None:
        super().__init__(asked.connection, header, asked.opaque, asked.codec, asked.request_code)
        self.asked = asked
        self.queue = queue
        self.item = item


class LogicalPulls(PullProcessor):
    """Serves pulls of a broker that has static topics; others are served as ever."""

    def __init__(
        self,
        mapped: MappedTopics,
        others: OtherBrokers,
        tasks: Tasks,
        settings: BrokerSettings,
        parts: Pulling,
    ) -> None:
        self._mapped = mapped
        self._others = others
        self._tasks = tasks
        super().__init__(settings, parts)

    def serve(self, pull: Pull) -> Frames | None:
        """Answer a pull that has just arrived; None when it is held, or another broker asked."""
        detail = self._detail(pull.header)
        if detail is None:
            return super().serve(pull)
        header = pull.header
        queue = self._mapped.led(detail, header.queue_id, WHAT)
        item = find(queue.items, header.queue_offset)
        if item is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"{header.topic}-{header.queue_id}: it is not decided yet where it begins",
            )
        stands_for = LogicalPull(pull, self._physical(queue, item, header), queue, item)
        if item.bname == self._mapped.broker_name:
            return super().serve(stands_for)
        self._check_broker(pull, stands_for)
        self._tasks.start(self._forward(stands_for), "forwarded pull")
        return None

    def serve_again(self, pull: Pull, expired: bool) -> bool:
        """Run a held pull once more; anew, where its queue has been mapped elsewhere meanwhile."""
        if not isinstance(pull, LogicalPull) or self._mapped.is_current(pull.queue.detail):
            return super().serve_again(pull, expired)
        try:
            frames = self.serve(pull.asked)
        except RequestError as error:
            frames = refusal(pull, error)
        if frames is not None:
            pull.connection.write(b"".join(frames))
        return True

    def _detail(self, header: PullMessageRequest) -> TopicQueueMappingDetail | None:
        return None if header.lo is False else self._mapped.find(header.topic)

    def _check_by(self, checks: PullChecks) -> Check:
        """Return what checks a pull of a physical queue; one of a logical queue is none.

        `Repeats` may have learned it while its topic was like any other.
        """

        def check(connection: Connection, header: PullMessageRequest, request_code: int) -> Allowed:
            if self._detail(header) is not None:
                raise RequestError(ResponseCode.NOT_LEADER_FOR_QUEUE, "the queue is a logical one")
            return checks.check(connection, header, request_code)

        return check

    def _check_broker(self, pull: Pull, stands_for: LogicalPull) -> None:
        """Refuse here what this broker refuses, before another one is asked."""
        leader = replaced(stands_for.header, queue_id=stands_for.queue.leader.queue_id)
        self._check(pull.connection, leader, pull.request_code)

    def _physical(
        self, queue: LogicalQueue, item: LogicQueueMappingItem, header: PullMessageRequest
    ) -> PullMessageRequest:
        """Return what is asked of the physical queue of a stretch.

        At the end of one that does not lead nobody waits. A commit that comes along counts where it
        is of the same stretch; of another the client commits it by itself, too (15).
        """
        here = item.bname == self._mapped.broker_name
        flags, commit, count = header.sys_flag, header.commit_offset, header.max_msg_nums
        if item.gen != queue.leader.gen:
            flags &= ~PullSysFlag.SUSPEND
        if flags & PullSysFlag.COMMIT_OFFSET:
            committed = find(queue.items, commit)
            if here and committed is not None and committed.gen == item.gen:
                commit = physical(item, commit)
            else:
                flags &= ~PullSysFlag.COMMIT_OFFSET
        if item.end_offset > item.start_offset:
            count = min(count, item.end_offset - item.start_offset)
        return replaced(  # type: ignore[no-any-return]
            header,
            queue_id=item.queue_id,
            queue_offset=physical(item, header.queue_offset),
            commit_offset=commit,
            max_msg_nums=count,
            sys_flag=flags,
            lo=False,
        )

    async def _forward(self, pull: LogicalPull) -> None:
        """Have another broker read, and answer with what it has found."""
        header = replaced(pull.header, sys_flag=pull.header.sys_flag & ~WAITS)
        try:
            reply = await self._others.ask(pull.item.bname, RequestCode.PULL_MESSAGE, header)
            if reply.code not in ANSWERS:
                raise RequestError(
                    ResponseCode.SYSTEM_ERROR,
                    f"broker {pull.item.bname} answers {reply.code}: {reply.remark}",
                )
            place = decode_header(PullMessageReply, reply.ext)
            frames = self._seen(pull, reply.code, place, bytes(reply.body), reply.remark)
        except RequestError as error:
            frames = refusal(pull, error)
        except Exception as error:  # noqa: BLE001  of this pull alone
            frames = self.fault(pull, error)
        if not pull.connection.closed:
            pull.connection.write(b"".join(frames))

    def _reply(
        self,
        pull: Pull,
        code: int,
        queue: TopicQueue,
        result: ReadResult,
        topic: TopicConfig,
        group: SubscriptionGroupConfig,
    ) -> Frames:
        frames = super()._reply(pull, code, queue, result, topic, group)  # hooks and counts, too
        if not isinstance(pull, LogicalPull):
            return frames
        place = PullMessageReply(
            suggest_which_broker_id=MASTER_ID,
            next_begin_offset=result.next_offset,
            min_offset=result.min_offset,
            max_offset=result.max_offset,
            topic_sys_flag=topic.topic_sys_flag,
            group_sys_flag=group.group_sys_flag,
        )
        return self._seen(pull, code, place, b"".join(result.parts), result.status.name)

    def _seen(
        self, pull: LogicalPull, code: int, place: PullMessageReply, body: bytes, remark: str | None
    ) -> Frames:
        """Encode what was found, in the offsets of the logical queue."""
        found = Places(code, pull.item, place.next_begin_offset, place.min_offset, place.max_offset)
        told = seen(pull.queue, pull.header.queue_offset, found)
        return [
            encode_frame(
                Command(
                    code=told.code,
                    ext=encode_header(as_logical(pull.queue, told, place)),
                    body=body,
                    opaque=pull.opaque,
                    flag=FLAG_RESPONSE,
                    remark=remark,
                    codec=pull.codec,
                )
            )
        ]
