"""The topics that every broker has from its first start, and which of them clients may not fill."""

from typing import Final

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import Perm
from aerobee.remoting.words import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    HALF_TOPIC,
    OFFSET_MOVED_EVENT,
    OP_HALF_TOPIC,
    REPLY_SUFFIX,
    ROCKSDB_HALF_TOPIC,
    ROCKSDB_OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_PREFIX,
    SYSTEM_TOPICS,
    TIMER_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
)

REVIVE_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
SYNC_MEMBER_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"

SCHEDULE_QUEUES: Final = 18
BENCHMARK_QUEUES: Final = 1024
CLUSTER_QUEUES: Final = 16  # TopicConfig.defaultReadQueueNums

SEND_FORBIDDEN: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
        ROCKSDB_HALF_TOPIC,
        ROCKSDB_OP_HALF_TOPIC,
        TIMER_TOPIC,
    }
)
"""Topics that only the broker itself writes (TopicValidator.isNotAllowedSendTopic).

RocketMQ takes what is sent to the timers', where one without its time stops it for good."""


def system_topics(settings: BrokerSettings) -> list[TopicConfig]:
    """List the topics that a broker makes at its start (TopicConfigManager.init)."""
    read_write = Perm.READ | Perm.WRITE
    cluster, broker = settings.broker_cluster_name, settings.broker_name
    topics = [
        _topic(SELF_TEST_TOPIC, 1),
        _topic(BENCHMARK_TOPIC, BENCHMARK_QUEUES),
        _topic(
            cluster,
            CLUSTER_QUEUES,
            Perm.INHERIT | (read_write if settings.cluster_topic_enable else 0),
        ),
        _topic(broker, 1, Perm.INHERIT | (read_write if settings.broker_topic_enable else 0)),
        _topic(OFFSET_MOVED_EVENT, 1),
        _topic(SCHEDULE_TOPIC, SCHEDULE_QUEUES),
        _topic(cluster + REPLY_SUFFIX, 1),
        _topic(REVIVE_PREFIX + cluster, settings.revive_queue_num),
        _topic(SYNC_MEMBER_PREFIX + broker, 1, Perm.INHERIT),
        _topic(HALF_TOPIC, 1),
        _topic(OP_HALF_TOPIC, 1),
        _topic(ROCKSDB_HALF_TOPIC, 1),
        _topic(ROCKSDB_OP_HALF_TOPIC, 1),
    ]
    if settings.auto_create_topic_enable:
        queues = settings.default_topic_queue_nums
        topics.append(_topic(AUTO_CREATE_TOPIC, queues, Perm.INHERIT | read_write))
    if settings.trace_topic_enable:
        topics.append(_topic(settings.msg_trace_topic_name, 1))
    if settings.timer_wheel_enable:
        topics.append(_topic(TIMER_TOPIC, 1))
    return topics


def is_system_topic(name: str, settings: BrokerSettings) -> bool:
    """Whether clients may neither change nor delete a topic (TopicValidator.isSystemTopic)."""
    return name.startswith(SYSTEM_PREFIX) or name in system_topic_names(settings)


def system_topic_names(settings: BrokerSettings) -> frozenset[str]:
    """Name the system topics, those included that this broker has not made."""
    return SYSTEM_TOPICS | {topic.topic_name for topic in system_topics(settings)}


def _topic(name: str, queues: int, perm: int = Perm.READ | Perm.WRITE) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
