"""A producer of messages that depend on a local transaction."""

import logging
from collections.abc import Sequence
from typing import Final

from aerobee.client.errors import InvalidMessage, wrong_argument
from aerobee.client.hooks import EndTransactionContext, SendHook
from aerobee.client.instance.client_instance import ClientInstance
from aerobee.client.message import Message, MessageQueue, check_message
from aerobee.client.received import ReceivedMessage
from aerobee.client.sending.due import waits_by
from aerobee.client.sending.producer import Producer
from aerobee.client.sending.retries import surely_not_stored
from aerobee.client.sending.selectors import QueueSelector
from aerobee.client.settings import ClientSettings, TransactionSettings, given
from aerobee.client.transactions.checks import Check, Checks
from aerobee.client.transactions.half import HalfMessage, Transaction
from aerobee.client.transactions.listener import TransactionListener, TransactionState
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.headers.transactions import (
    CheckTransactionStateRequest,
    EndTransactionRequest,
)
from aerobee.remoting.headers.typed import encode_header
from aerobee.remoting.net.connection import Connection

log = logging.getLogger(__name__)

HOOK_STATES: Final = {  # as RocketMQ spells them (LocalTransactionState.java)
    TransactionState.COMMIT.value: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK.value: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN.value: "UNKNOW",
}
REMARK_CHARACTERS_MAX: Final = 1_000


class TransactionProducer(Producer):
    """Sends messages that consumers see if, and only if, a local transaction succeeds.

        class Orders(TransactionListener):
            async def check(self, message: ReceivedMessage) -> TransactionState:
                paid = message.message_id in database  # what the transaction left, and nothing else
                return TransactionState.COMMIT if paid else TransactionState.ROLLBACK

        async with TransactionProducer(
            "orders", namesrv="127.0.0.1:9876", listener=Orders()
        ) as producer:
            async with producer.transaction(Message("orders", b"paid")) as half:
                database.add(half.message_id)

    The message is stored first, as a half that nobody sees; the end of the block commits it, an
    exception rolls it back. Whatever is lost on the way (the word to the broker, this process), the
    broker asks a producer of the group, whose `listener` answers by stored data: so a listener has
    to be there, and right. Other sends are those of a `Producer` (TransactionMQProducer.java). A
    group is asked from 6 s after the send on, every 30 s, 15 times by default; TransactionSettings
    has what this side does of it. Entering raises what `send` raises, and TransactionNotBegun.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        listener: TransactionListener,
        settings: TransactionSettings | None = None,
        client: ClientSettings | None = None,
        hooks: Sequence[SendHook] = (),
    ) -> None:
        """Describe the producer; nothing happens before `start`.

        Each member of `group` is asked about the transactions of all: their listeners look at the
        same data. Raises InvalidMessage for a bad group.
        """
        self.transactions = given("settings", settings, TransactionSettings)
        if not callable(getattr(listener, "check", None)):
            raise wrong_argument("listener", "a TransactionListener", listener)
        super().__init__(
            group, namesrv=namesrv, settings=self.transactions, client=client, hooks=hooks
        )
        self._listener = listener
        self._deciding: set[str] = set()  # ids of messages whose block has not ended
        self._checks: Checks | None = None

    # --- the producer's life ---

    async def _join(self, instance: ClientInstance) -> None:
        """Let brokers know of the group, also those that it has not sent to yet."""
        self._checks = Checks(self._listener, self.transactions, self._answer)
        instance.checkers.add(self)
        await instance.routes.refresh_all(sorted(self.check_topics()))
        await super()._join(instance)

    async def _leave(self, instance: ClientInstance) -> None:
        instance.checkers.remove(self)
        checks, self._checks = self._checks, None
        try:
            if checks is not None:
                await checks.close()
        finally:
            await super()._leave(instance)

    def check_topics(self) -> frozenset[str]:
        """Topics whose brokers know of the group from the start on."""
        return frozenset(self.transactions.topics or (self.settings.create_topic_key,))

    # --- transactions ---

    def transaction(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        key: str | int | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> Transaction:
        """Return a block for `async with`, whose end decides whether consumers see the message.

            async with producer.transaction(Message("orders", b"paid")) as half:
                ...  # an exception rolls back; half.decide(TransactionState.ROLLBACK) does, too

        Queue, key, selector and time are those of `send`. Entering raises what `send` raises, and
        TransactionNotBegun; InvalidMessage for a delay, which transactions do not have. The half
        message is sent again only where it is certain that it was not stored: where a reply is
        lost the block is not entered. See `Transaction` for what an exception means. Where the
        broker cannot be told of the end nothing is raised: it asks (`half.told`).
        """

        async def begin() -> HalfMessage:
            return await self._begin(message, timeout_ms, (queue, key, selector))

        return Transaction(begin, self._end)

    async def send_in_transaction(
        self,
        message: Message,
        argument: object = None,
        *,
        key: str | int | None = None,
        timeout_ms: int | None = None,
    ) -> HalfMessage:
        """Send a half message, run the listener's `execute`, and tell the broker how that ended.

            half = await producer.send_in_transaction(Message("orders", b"paid"), order)
            print(half.state, half.result.message_id)

        Raises what entering a `transaction` raises, and what `execute` raises; the end is unknown
        then, and the broker asks. (DefaultMQProducerImpl.sendMessageInTransaction)
        """
        async with self.transaction(message, key=key, timeout_ms=timeout_ms) as half:
            half.committing()
            state = await self._listener.execute(half, argument)
            known = isinstance(state, TransactionState)
            half.decide(state if known else TransactionState.UNKNOWN)
        return half

    async def _begin(
        self,
        message: Message,
        timeout_ms: int | None,
        choice: tuple[MessageQueue | None, str | int | None, QueueSelector | None],
    ) -> HalfMessage:
        check_message(message, self.settings.body_bytes_max, self.settings.delay_level_max)
        if (waits := waits_by(message)) is not None:
            raise InvalidMessage(f"a transaction's message has no delay, and this one {waits}")
        deadline_s = self._deadline_s(timeout_ms)
        route = self._known_route(message.topic) or await self._route(message.topic, deadline_s)
        outgoing = self._packer.pack(message, half=True)
        queues, tries_max = route.write_queues, 1 + self.settings.retries_max
        if any(each is not None for each in choice):
            queues, tries_max = (self._choice.choose(route, message, *choice),), 1
        self._deciding.add(outgoing.message_id)
        try:
            result = await self._deliver(
                [message], outgoing, queues, tries_max, deadline_s, surely_not_stored
            )
            return HalfMessage(message, result)
        except BaseException:
            self._deciding.discard(outgoing.message_id)
            raise

    async def _end(self, half: HalfMessage, error: BaseException | None) -> None:
        """Tell the broker how a transaction has ended; where that fails, it asks.

        Nothing is awaited where the end is unknown: the task may be cancelled, and need not tell.
        """
        state, queue = half.end(error), half.result.queue
        header = EndTransactionRequest(
            topic=half.message.topic,
            producer_group=self.group,
            tran_state_table_offset=half.result.queue_offset,
            commit_log_offset=half.position,
            commit_or_rollback=state.value,
            msg_id=half.message_id,
            transaction_id=half.result.transaction_id or half.message_id,
            broker_name=queue.broker_name,
        )
        remark = (
            None if error is None else f"the transaction raised {type(error).__name__}: {error}"
        )
        try:
            connection = self._open(queue)
            if connection is None and state is not TransactionState.UNKNOWN:
                connection = await self._connect(queue, self._deadline_s(None))
            if connection is not None:
                _say(connection, header, remark)
                half.told = True
                self._tell_hooks(half.message, connection, header)
        except AerobeeError as failure:
            log.warning(
                "end of a transaction not told, the broker will ask queue=%s message_id=%s"
                " state=%s: %s",
                queue,
                half.message_id,
                state.name,
                failure,
            )
        finally:
            self._deciding.discard(half.message_id)

    # --- checks ---

    def is_deciding(self, message_id: str) -> bool:
        """Whether the block of this message's transaction has not ended."""
        return message_id in self._deciding

    def check(
        self,
        asked: CheckTransactionStateRequest,
        message: ReceivedMessage,
        connection: Connection,
    ) -> None:
        """Have the listener answer a broker; nobody knows while the block is still at work.

        A listener that looked now would find nothing, and might well say that it is rolled back.
        """
        if self.is_deciding(message.message_id):
            log.info("check while the transaction runs message_id=%s", message.message_id)
        elif self._checks is not None:
            self._checks.add(Check(asked, message, connection))

    async def _answer(self, check: Check, state: TransactionState, remark: str | None) -> None:
        """Say to the broker that asked how a transaction has ended; raises Unavailable.

        (DefaultMQProducerImpl.checkTransactionState)
        """
        connection = check.connection
        if connection.closed:
            connection = await self._started().connections.connect(connection.remote)
        asked, message_id = check.asked, check.message.message_id
        header = EndTransactionRequest(
            topic=asked.topic,
            producer_group=self.group,
            tran_state_table_offset=asked.tran_state_table_offset,
            commit_log_offset=asked.commit_log_offset,
            commit_or_rollback=state.value,
            from_transaction_check=True,
            msg_id=message_id,
            transaction_id=asked.transaction_id or message_id,
            broker_name=asked.broker_name,
        )
        _say(connection, header, remark)
        self._tell_hooks(_as_sent(check.message), connection, header)

    def _tell_hooks(
        self, message: Message, connection: Connection, header: EndTransactionRequest
    ) -> None:
        """Let hooks know what was said to a broker."""
        EndTransactionContext(
            self.group,
            message,
            connection.remote,
            header.msg_id or "",
            header.transaction_id,
            HOOK_STATES[header.commit_or_rollback],
            header.from_transaction_check,
            self._client_id(),
        ).tell(self._hooks)


def _as_sent(message: ReceivedMessage) -> Message:
    """Return a half message that a broker has asked about as its sender made it."""
    properties = message.user_properties
    return Message(
        message.topic, message.body, message.tags, message.keys, 0, properties, message.flag
    )


def _say(connection: Connection, header: EndTransactionRequest, remark: str | None) -> None:
    """Write how a transaction has ended; nobody waits for an answer. Raises ConnectionLost."""
    if remark is not None:
        remark = remark[:REMARK_CHARACTERS_MAX]
    connection.oneway(Command(RequestCode.END_TRANSACTION, encode_header(header), remark=remark))
