"""What a broker looks at before it stores a message."""

from collections.abc import Callable

import msgspec

from aerobee.broker.rules.attributes import is_compacted
from aerobee.broker.rules.delay_property import TIMER_PROPERTIES, delay_level
from aerobee.broker.rules.names import check_topic
from aerobee.broker.rules.remarks import further_details, topic_text
from aerobee.broker.rules.system_topics import SEND_FORBIDDEN
from aerobee.broker.sends.retries import Retries
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.topics import TopicTable
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import Perm, ResponseCode, SysFlag, TopicSysFlag
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.send import AnySend
from aerobee.remoting.message.batch import BatchedMessage, split_batch
from aerobee.remoting.message.properties import Property, parse_properties
from aerobee.remoting.net.routes import Request
from aerobee.remoting.words import DLQ_PREFIX, LIGHT_QUEUE_PREFIX, RETRY_PREFIX
from aerobee.storage.features.delays.progress import DELIVERED_PROPERTY


class Checked(msgspec.Struct, frozen=True):
    """A send that may be stored, its properties as they were sent, and the topic where it goes."""

    header: AnySend
    properties: dict[str, str]
    topic: TopicConfig
    is_new: bool  # nobody knows the topic yet


class SendChecks:
    """Looks at messages by the settings of the moment; makes the topics that sends may make."""

    def __init__(
        self, live: Live, topics: TopicTable, retries: Retries, now_ms: Callable[[], int]
    ) -> None:
        self._live = live
        self._topics = topics
        self._retries = retries
        self._now_ms = now_ms
        self.may_append: Callable[[str, int], None] | None = None  # raises, where it may not

    def check_request(self, request: Request[AnySend], header: AnySend) -> Checked:
        """Run AbstractSendMessageProcessor's checks in its order; make the topic where it has to.

        A message that its group has tried often enough goes to the dead letters instead.
        """
        settings = self._live.current
        if self._now_ms() < settings.start_accept_send_request_time_stamp:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"broker unable to service, until {settings.start_accept_send_request_time_stamp}",
            )
        if not settings.broker_permission & Perm.WRITE and self._topics.is_order_topic(
            header.topic
        ):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{settings.broker_ip1}] sending message is forbidden",
            )
        check_topic(header.topic)
        if header.topic in SEND_FORBIDDEN:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"Sending message to topic[{header.topic}] is forbidden.",
            )
        known = self._topics.get(header.topic)
        if settings.light_queues and header.topic.startswith(LIGHT_QUEUE_PREFIX):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"Sending message to topic[{header.topic}] is forbidden: light queues get what"
                f" names them in {Property.INNER_MULTI_DISPATCH}.",
            )
        topic = known or self._create_topic(header)
        if header.queue_id >= max(topic.write_queue_nums, topic.read_queue_nums):
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"request queueId[{header.queue_id}] is illegal, {topic_text(topic)} "
                f"Producer: {request.connection.remote}",
            )
        if self.may_append is not None:
            self.may_append(header.topic, header.queue_id)
        is_new = known is None
        if header.topic.startswith(RETRY_PREFIX):
            buried = self._retries.instead_of_retry(header, request.command.version)
            if buried is not None:
                header, topic, is_new = buried
        return Checked(header, parse_properties(header.properties or ""), topic, is_new)

    def _create_topic(self, header: AnySend) -> TopicConfig:
        """Make the topic of a first message, if the broker is allowed to."""
        sys_flag = 0
        if header.unit_mode:
            retry = header.topic.startswith(RETRY_PREFIX)
            sys_flag = TopicSysFlag.UNIT_SUB if retry else TopicSysFlag.UNIT
        topic = self._topics.create_on_send(
            header.topic, header.default_topic, header.default_topic_queue_nums, sys_flag
        )
        if topic is None and header.topic.startswith(RETRY_PREFIX):
            topic, _ = self._topics.create_for_group(header.topic, 1, topic_sys_flag=sys_flag)
        if topic is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST,
                further_details(f"topic[{header.topic}] not exist, apply first please!"),
            )
        return topic

    def check_message(self, checked: Checked, body: bytes | memoryview) -> None:
        """Refuse (RequestError) one message that is not to be stored."""
        header = checked.header
        compacted = is_compacted(checked.topic)
        if compacted:
            self._check_key(checked.properties)
        if not (body or compacted) or len(body) > self._live.current.max_message_size:
            raise self.illegal()
        self._check_inner_batch(checked.properties, header.sys_flag)
        self._check_unserved(
            header.topic, checked.properties, header.sys_flag, header.reconsume_times or 0
        )

    def check_batch(self, checked: Checked, body: bytes | memoryview) -> list[BatchedMessage]:
        """Take a batch body apart; raises RequestError where it is malformed or not allowed."""
        header = checked.header
        if header.topic.startswith(RETRY_PREFIX):
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"batch request does not support retry group {header.topic}",
            )
        settings = self._live.current
        if len(body) > settings.max_message_size:
            raise self.illegal()
        self._check_inner_batch(checked.properties, header.sys_flag)
        messages, compacted = split_batch(body), is_compacted(checked.topic)
        for entry in messages:
            properties = parse_properties(entry.properties)
            if compacted:
                self._check_key(properties)
            self._check_unserved(header.topic, properties, header.sys_flag)
            if properties.get(Property.TRAN_MSG, "").lower() == "true":
                raise RequestError(
                    ResponseCode.MESSAGE_ILLEGAL,
                    "a batch holds a half message: send transactional messages one by one",
                )
            if settings.light_queues and Property.INNER_MULTI_DISPATCH in properties:
                raise RequestError(
                    ResponseCode.MESSAGE_ILLEGAL,
                    "a batch holds a message for light queues: send such messages one by one",
                )
            timed = any(name in properties for name in TIMER_PROPERTIES)
            if timed or delay_level(properties) or DELIVERED_PROPERTY in properties:
                raise RequestError(
                    ResponseCode.MESSAGE_ILLEGAL,
                    "a batch holds a message with a delay: send delayed messages one by one",
                )
        if not messages:
            raise self.illegal()
        return messages

    def _check_key(self, properties: dict[str, str]) -> None:
        """Refuse what a topic that keeps the latest of each key could not keep."""
        if not properties.get(Property.KEYS, "").strip():
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, "Required message key is missing")

    def _check_inner_batch(self, properties: dict[str, str], sys_flag: int) -> None:
        """Refuse what is for topics of queue type BatchCQ alone (HookUtils.checkInnerBatch)."""
        if Property.INNER_NUM in properties or sys_flag & SysFlag.INNER_BATCH:
            raise self.illegal()

    def _check_unserved(
        self, topic: str, properties: dict[str, str], sys_flag: int, reconsume_times: int = 0
    ) -> None:
        """Refuse, with the reason, the kinds of messages that this broker does not deliver."""
        settings = self._live.current
        delayed = delay_level(properties) > 0
        timed = any(name in properties for name in TIMER_PROPERTIES)
        prepared = (
            properties.get(Property.TRAN_MSG, "").lower() == "true"
            and not (delayed and reconsume_times)  # old clients leave it on what they send back
            and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        )
        self._check_transaction(sys_flag, prepared=prepared, later=delayed or timed)
        if delayed and not reconsume_times and not settings.delays_messages:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                "this broker delays no message: its messageDelayLevel is empty",
            )
        timed = timed and not delayed and Property.TIMER_OUT_MS not in properties
        if timed and not settings.timer_wheel_enable:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                "accurate timer message is not enabled, timerWheelEnable is false",
            )

    def _check_transaction(self, sys_flag: int, *, prepared: bool, later: bool) -> None:
        """Refuse half messages that are not wanted, or cannot be; and outcomes as messages."""
        settings = self._live.current
        refused = settings.reject_transaction_message or not settings.transaction_enable
        state = sys_flag & SysFlag.TRANSACTION_ROLLBACK
        if (prepared and refused) or (
            state and not (prepared and state == SysFlag.TRANSACTION_PREPARED)
        ):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{settings.broker_ip1}] sending transaction message is forbidden",
            )
        if prepared and later:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                "Transactional messages do not support delayed delivery",
            )

    def illegal(self) -> RequestError:
        """Refuse with MESSAGE_ILLEGAL in RocketMQ's words, which name both limits."""
        return RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            "the message is illegal, maybe msg body or properties length not matched. "
            f"msg body length limit {self._live.current.max_message_size}B, "
            "msg properties length limit 32KB.",
        )
