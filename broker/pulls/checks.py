"""The checks that every pull passes, in RocketMQ's order (PullMessageProcessor.processRequest)."""

from typing import Final, TypeAlias

from aerobee.broker.members.registry import Members
from aerobee.broker.members.subscriptions import MessageFilter, SqlFilter, check_property_filter
from aerobee.broker.rules.remarks import Forbidden, further_details
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.tables.parts import Tables
from aerobee.broker.writing.queues import TopicQueue, TopicQueues
from aerobee.remoting.bodies import SubscriptionGroupConfig, TopicConfig
from aerobee.remoting.codes import Perm, PullSysFlag, RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.pull import PullMessageRequest
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.words import CONSUME_ACTIVELY, SYSTEM_GROUP_PREFIX

NEVER_REJECTED: Final = frozenset(
    {
        "DEFAULT_CONSUMER", "TOOLS_CONSUMER", "SCHEDULE_CONSUMER", "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER", "CID_ONSAPI_PULL",
    }
)  # fmt: skip
"""Groups that may always pull, like those of the system (MixAll.isSysConsumerGroupPullMessage)."""

Allowed: TypeAlias = tuple[TopicQueue, MessageFilter | None, TopicConfig, SubscriptionGroupConfig]


class PullChecks:
    """Says what a pull may read, or why it may not; made anew when a setting has changed."""

    def __init__(
        self, settings: BrokerSettings, members: Members, tables: Tables, queues: TopicQueues
    ) -> None:
        self._settings = settings
        self._members = members
        self._topic = tables.topics.get
        self._group = tables.groups.find
        self._queue = queues.get
        self._filter = members.filter_for_pull
        self._problem = members.sql_filters.problem
        self._readable = bool(settings.broker_permission & Perm.READ)
        self._members_only = settings.reject_pull_consumer_enable

    def check(
        self, connection: Connection, header: PullMessageRequest, request_code: int
    ) -> Allowed:
        """Return the queue, the filter, and the configurations of topic and group.

        Raises RequestError with the code of the first check that fails.
        """
        if not self._readable:
            raise self._closed("pulling message is forbidden")
        if request_code == RequestCode.LITE_PULL_MESSAGE:
            self._check_lite()
        group = self._group(header.consumer_group)
        if group is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                further_details(f"subscription group [{header.consumer_group}] does not exist, "),
            )
        if not group.consume_enable:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"subscription group no permission, {header.consumer_group}",
                Forbidden.GROUP,
            )
        topic_name, queue_id = header.topic, header.queue_id
        topic = self._topic(topic_name)
        if topic is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST,
                further_details(f"topic[{topic_name}] not exist, apply first please! "),
            )
        if not topic.perm & Perm.READ:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the topic[{topic_name}] pulling message is forbidden",
                Forbidden.TOPIC,
            )
        if not 0 <= queue_id < topic.read_queue_nums:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{queue_id}] is illegal, topic:[{topic_name}] topicConfig.readQueueNums:"
                f"[{topic.read_queue_nums}] consumer:[/{connection.remote}]",
            )
        wanted = self._filter(group, header)
        if wanted is not None and isinstance(wanted, SqlFilter):
            self._check_expression(wanted, header)
        if self._members_only:
            self._check_member(connection, header.consumer_group)
        return self._queue(topic_name, queue_id), wanted, topic, group

    def _closed(self, what: str) -> RequestError:
        return RequestError(
            ResponseCode.NO_PERMISSION,
            f"the broker[{self._settings.broker_ip1}] {what}",
            Forbidden.BROKER,
        )

    def _check_lite(self) -> None:
        if not self._settings.lite_pull_message_enable:
            raise self._closed("for lite pull consumer is forbidden")

    def _check_expression(self, wanted: SqlFilter, header: PullMessageRequest) -> None:
        """Refuse an expression that cannot be compiled, and any where none is allowed."""
        enabled = self._settings.enable_property_filter
        brought = header.sys_flag & PullSysFlag.SUBSCRIPTION
        if enabled and not brought and self._problem(wanted) is not None:
            raise RequestError(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                "The broker's consumer filter data is not exist!Your expression may be wrong!",
            )
        check_property_filter(wanted.expression_type, enabled=enabled)
        problem = self._problem(wanted)
        if problem is not None:
            reason = f", {problem}" if wanted.expression else ""
            raise RequestError(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                f"parse the consumer's subscription failed{reason}",
            )

    def _check_member(self, connection: Connection, name: str) -> None:
        """Refuse those who pull on their own account where only push consumers may."""
        group = self._members.group(name)
        if group is not None and group.consume_type != CONSUME_ACTIVELY:
            return
        system = name in NEVER_REJECTED or name.startswith(SYSTEM_GROUP_PREFIX)
        if (group is None or connection not in group.members) and not system:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                further_details(
                    "the consumer's group info not exist, or the pull consumer is rejected by "
                    "server."
                ),
            )
