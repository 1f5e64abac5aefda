"""What becomes of messages that are not handled: back to the brokers, dead letters, dropped."""

import asyncio
import logging
import random
from typing import Final, Protocol

from aerobee.client.errors import NOT_NOW, BrokerRefused, Unavailable
from aerobee.client.group.member import Membership
from aerobee.client.message import Message, MessageQueue
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.received import ReceivedMessage
from aerobee.client.sending.due import TIMES
from aerobee.client.sending.outgoing import Packer, read_reply
from aerobee.client.settings import ProducerSettings, PushSettings
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.headers.send import SendBackRequest
from aerobee.remoting.message.properties import Property
from aerobee.remoting.net.tasks import Tasks
from aerobee.remoting.words import RETRY_PREFIX

log = logging.getLogger(__name__)

CONCURRENT_TIMES_MAX: Final = 16  # what -1 means: DefaultMQPushConsumerImpl.getMaxReconsumeTimes
ORDERLY_TIMES_MAX: Final = 2**31 - 1
INNER_PRODUCER: Final = "CLIENT_INNER_PRODUCER"  # the group in whose name retries are sent
FIRST_DELAY_LEVEL: Final = 3
DEAD_LETTERS: Final = -1  # the delay level that stands for them
_ATTEMPTS: Final = 3


def _times_max(settings: PushSettings, unlimited: int) -> int:
    given = settings.max_reconsume_times
    return unlimited if given < 0 else given


def retry_topic(group: str) -> str:
    """Return the topic through which brokers give a group its failed messages again."""
    return RETRY_PREFIX + group


class Failures(Protocol):
    """What becomes of messages that are not handled: their queue goes on without them."""

    times_max: int
    """How often a message may fail in an ordered queue before it is given up."""

    async def give_back(
        self, messages: list[ReceivedMessage], delay_level: int = 0
    ) -> list[ReceivedMessage]:
        """See to messages that failed; return those that have to be handled here again."""
        ...

    async def give_up(self, message: ReceivedMessage) -> bool:
        """Let go of one that has failed too often; False if that cannot be done now."""
        ...

    async def put_away(self, message: ReceivedMessage) -> bool:
        """See to one that cannot be unpacked; False if that cannot be done now."""
        ...


class DropFailed:
    """Lets go of them: nobody sends them again to one broadcasting member alone."""

    def __init__(self, settings: PushSettings) -> None:
        self.times_max = _times_max(settings, ORDERLY_TIMES_MAX)

    async def give_back(
        self, messages: list[ReceivedMessage], delay_level: int = 0
    ) -> list[ReceivedMessage]:
        """Drop messages, with a warning for each."""
        for message in messages:
            log.warning(
                "broadcasting, the message is dropped: its handler failed queue=%s offset=%d"
                " message_id=%s",
                message.queue,
                message.queue_offset,
                message.message_id,
            )
        return []

    async def give_up(self, message: ReceivedMessage) -> bool:
        """Drop a message, with a warning."""
        await self.give_back([message])
        return True

    async def put_away(self, message: ReceivedMessage) -> bool:
        """Pass over a message: the group has no dead letters."""
        return True


class SendBack:
    """Gives messages of one group back (DefaultMQPushConsumerImpl.sendMessageBack).

    A broker delivers a message again so many times; after that it goes to the group's dead
    letters. Brokers find the original in their log; where that fails, or an ordered queue gives it
    up, the whole message is sent to the retry topic, to any broker that has it.
    """

    def __init__(self, member: Membership, settings: PushSettings, *, ordered: bool) -> None:
        self.times_max = _times_max(
            settings, ORDERLY_TIMES_MAX if ordered else CONCURRENT_TIMES_MAX
        )
        self._instance = member.instance
        self._group = member.group
        self._originals_times_max = _times_max(settings, CONCURRENT_TIMES_MAX)
        self._timeout_ms = settings.send_back_timeout_ms
        self._sending = ProducerSettings()
        self._packer = Packer(INNER_PRODUCER, self._sending)

    async def give_back(
        self, messages: list[ReceivedMessage], delay_level: int = 0
    ) -> list[ReceivedMessage]:
        """Give messages back, and return those that no broker has taken.

        `delay_level` 0 lets the broker wait longer with each time, -1 means the dead letters.
        """
        if len(messages) == 1:
            taken = [await self._give_one_back(messages[0], delay_level)]
        else:
            taken = await asyncio.gather(
                *(self._give_one_back(message, delay_level) for message in messages)
            )
        return [message for message, ok in zip(messages, taken, strict=True) if not ok]

    async def put_away(self, message: ReceivedMessage) -> bool:
        """Let the broker put its record to the dead letters; False if it cannot be asked now.

        A refusal is logged, and final: the message stays where it is, and nothing else is done.
        A broker that is busy, or has no room, cannot be asked now.
        """
        try:
            await self._ask_to_take(message, DEAD_LETTERS)
        except BrokerRefused as error:
            if error.code in NOT_NOW:
                self._log_waiting(message, error)
                return False
            log.error(
                "message not put to the dead letters, passed over group=%s queue=%s offset=%d: %s",
                self._group,
                message.queue,
                message.queue_offset,
                error,
            )
        except AerobeeError as error:
            self._log_waiting(message, error)
            return False
        return True

    def _log_waiting(self, message: ReceivedMessage, error: AerobeeError) -> None:
        log.warning("dead letter waits group=%s queue=%s: %s", self._group, message.queue, error)

    async def give_up(self, message: ReceivedMessage) -> bool:
        """Send a copy to the retry topic; False, with the reason in the log, if that failed.

        A copy that has been tried more than `times_max` times is put to the dead letters there.
        There is none of what cannot be read: it would look as if it could.
        """
        if message.damage is not None:
            return False
        try:
            await self._send_copy(message)
        except AerobeeError as error:
            log.error(
                "sending to the retry topic failed group=%s queue=%s offset=%d error=%s",
                self._group,
                message.queue,
                message.queue_offset,
                error,
            )
            return False
        return True

    async def _ask_to_take(self, message: ReceivedMessage, delay_level: int) -> None:
        header = SendBackRequest(
            offset=message.position,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=message.topic,
            max_reconsume_times=self._originals_times_max,
        )
        code = RequestCode.CONSUMER_SEND_MSG_BACK
        await self._instance.brokers.call_broker(message.queue, code, header, self._timeout_ms)

    async def _give_one_back(self, message: ReceivedMessage, delay_level: int) -> bool:
        try:
            await self._ask_to_take(message, delay_level)
        except AerobeeError as error:
            log.error(
                "send back failed, sending to the retry topic group=%s queue=%s offset=%d error=%s",
                self._group,
                message.queue,
                message.queue_offset,
                error,
            )
            return await self.give_up(message)
        return True

    async def _send_copy(self, message: ReceivedMessage) -> None:
        topic = retry_topic(self._group)
        queues = (await self._instance.routes.get(topic)).write_queues
        problem: AerobeeError = Unavailable(f"no queue of {topic} can be sent to")
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._sending.send_timeout_ms / 1000  # for all attempts together
        for queue in random.sample(queues, min(len(queues), _ATTEMPTS)):
            left_ms = int((deadline - clock()) * 1000)
            if left_ms <= 0:
                break
            try:
                await self._send_to(queue, message, left_ms)
            except AerobeeError as error:
                problem = error
            else:
                return
        raise problem

    async def _send_to(
        self, queue: MessageQueue, message: ReceivedMessage, timeout_ms: int
    ) -> None:
        address = await self._instance.routes.broker_address(queue)
        times = message.reconsume_times
        outgoing = self._packer.pack(self._copy(message), message.message_id)
        fields = self._packer.fields(outgoing, queue)
        fields["j"] = str(times + 1)
        fields["l"] = str(self.times_max)
        reply = await self._instance.connections.call(
            address,
            outgoing.code,
            fields,
            outgoing.body,
            timeout_ms=timeout_ms,
        )
        read_reply(reply, outgoing, queue, address)

    def _copy(self, message: ReceivedMessage) -> Message:
        """The message as its sender wrote it, with what a redelivered one carries."""
        properties = dict(message.properties)
        for name in (Property.TRAN_MSG, Property.UNIQ_KEY, *TIMES):
            properties.pop(name, None)
        properties.setdefault(Property.ORIGIN_MESSAGE_ID, message.message_id)
        properties[Property.RETRY_TOPIC] = message.topic
        properties[Property.RECONSUME_TIME] = str(message.reconsume_times + 1)
        properties[Property.MAX_RECONSUME_TIMES] = str(self.times_max)
        return Message(
            retry_topic(self._group),
            message.body,
            delay_level=FIRST_DELAY_LEVEL + message.reconsume_times,
            properties=properties,
            flag=message.flag,
        )


class Unreadable:
    """Puts what cannot be unpacked to the group's dead letters, and lets its queue pass it.

    No handler sees it: that would get packed bytes for a body. The queue's offset waits until the
    broker has it; a queue that is given up waits for a question that is under way. What is damaged
    is only passed over, for the broker would copy the damage. (MessageDecoder.java drops it with
    the rest of its reply.)
    """

    def __init__(self, failures: Failures, retry_ms: int) -> None:
        self._failures = failures
        self._retry_s = retry_ms / 1000
        self._tasks = Tasks()

    async def close(self) -> None:
        """Stop at once; what has not been put away comes again."""
        await self._tasks.close()

    def take(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """See to messages of `process`, which learns when each is done."""
        self._tasks.start(self._see_to(process, messages), "messages that cannot be read")

    async def _see_to(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        for message in messages:
            if process.dropped:
                return
            while not await self._put_away(process, message):
                await asyncio.sleep(self._retry_s)
                if process.dropped:
                    return

    async def _put_away(self, process: ProcessQueue, message: ReceivedMessage) -> bool:
        """Be done with a message; False if it has to be tried again."""
        process.begun()
        try:
            as_sent = message.damage is not None and message.damage.as_sent
            done = not as_sent or await self._failures.put_away(message)
            if done:
                process.done(message)
        finally:
            process.finished()
        return done
