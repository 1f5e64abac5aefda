"""Names that the protocol gives a meaning: topics, prefixes, kinds of consumers and filters.

Each stands here alone (`tests/house/test_words.py`), as RocketMQ spells it: TopicValidator.java,
MixAll.java, ConsumeType.java, MessageModel.java, ExpressionType.java.
"""

from typing import Final

RETRY_PREFIX: Final = "%RETRY%"
"""Begins the topic of what a group tries again; the group's name follows."""
DLQ_PREFIX: Final = "%DLQ%"
"""Begins the topic of a group's dead letters."""
REPLY_SUFFIX: Final = "_REPLY_TOPIC"
"""Ends the topic of a cluster's replies; the cluster's name goes before."""
REPLY: Final = "reply"
"""The MSG_TYPE of a message that answers a request."""
LIGHT_QUEUE_PREFIX: Final = "%LMQ%"
"""Begins the name of a light queue, which is a topic with one queue that no table lists."""
SYSTEM_PREFIX: Final = "rmq_sys_"
"""Begins the names of topics that clients may neither change nor delete."""
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

AUTO_CREATE_TOPIC: Final = "TBW102"
"""The topic whose brokers make topics that nobody has made; requests name it."""
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
"""Where delayed messages wait; its queue entries hold delivery times as tags codes."""
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
"""Where messages wait for a time of their own, in queue 0."""
BENCHMARK_TOPIC: Final = "BenchmarkTest"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROCKSDB_HALF_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_OP_HALF_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT: Final = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC: Final = "CHECKPOINT_TOPIC"

SYSTEM_TOPICS: Final = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        TRACE_TOPIC,
        OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
        CHECKPOINT_TOPIC,
    }
)
"""Topics that RocketMQ keeps for itself (TopicValidator.SYSTEM_TOPIC_SET)."""
ROCKSDB_TOPICS: Final = frozenset({ROCKSDB_HALF_TOPIC, ROCKSDB_OP_HALF_TOPIC})
"""Two more that every broker has since RocketMQ 5.5, whatever it keeps its transactions in."""

CONSUME_ACTIVELY: Final = "CONSUME_ACTIVELY"
"""The consume type of lite pull consumers, which ask for queues themselves."""
CONSUME_PASSIVELY: Final = "CONSUME_PASSIVELY"
"""The consume type of push consumers."""
CONSUME_POP: Final = "CONSUME_POP"

CLUSTERING: Final = "CLUSTERING"
"""The message model in which the members of a group share the queues."""
BROADCASTING: Final = "BROADCASTING"
"""The message model in which every member has all queues."""

TAG: Final = "TAG"
"""The type of a filter expression of tags."""
SQL92: Final = "SQL92"
"""The type of a filter expression over a message's properties."""

SCOPE_GLOBAL: Final = "__global__"
"""The scope of static topics: the queues of a topic are one set in all clusters."""
