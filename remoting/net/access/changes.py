"""What operators change: the codes that an audit log notes, and that an `adminPort` keeps.

Tests hold the table against what brokers and nameservers serve: whatever needs a right to create,
update or delete is in it, unless members of a group do so for themselves.
"""

from typing import Final

from aerobee.remoting.codes import RequestCode as Code

CLUSTER: Final = "Cluster"
BODY: Final = "body_"
"""What names in a body begin with here: what is read there may differ from what a header says."""
PROPERTIES: Final = frozenset({Code.UPDATE_BROKER_CONFIG, Code.UPDATE_NAMESRV_CONFIG})
"""Whose bodies are properties; others are JSON."""

CHANGES: Final[dict[int, tuple[str, str]]] = {
    # topics and groups
    Code.UPDATE_AND_CREATE_TOPIC: ("UPDATE_AND_CREATE_TOPIC", "Topic:{topic}"),
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: ("UPDATE_AND_CREATE_STATIC_TOPIC", "Topic:{topic}"),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: ("UPDATE_AND_CREATE_TOPIC_LIST", "Topic"),
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: ("UPDATE_AND_CREATE_STATIC_TOPIC", "Topic:{topic}"),
    Code.DELETE_TOPIC_IN_BROKER: ("DELETE_TOPIC_IN_BROKER", "Topic:{topic}"),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (
        "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", "Group:{body_groupName}",
    ),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: (
        "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST", "Group",
    ),
    Code.DELETE_SUBSCRIPTIONGROUP: ("DELETE_SUBSCRIPTIONGROUP", "Group:{groupName}"),
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: ("UPDATE_AND_GET_GROUP_FORBIDDEN", "Group:{group}"),
    Code.SET_MESSAGE_REQUEST_MODE: ("SET_MESSAGE_REQUEST_MODE", "Group:{body_consumerGroup}"),
    # how far groups are, and what waits
    Code.INVOKE_BROKER_TO_RESET_OFFSET: ("INVOKE_BROKER_TO_RESET_OFFSET", "Group:{group}"),
    Code.CLONE_GROUP_OFFSET: ("CLONE_GROUP_OFFSET", "Group:{destGroup}"),
    Code.RESUME_CHECK_HALF_MESSAGE: ("RESUME_CHECK_HALF_MESSAGE", "Topic:{topic}"),
    Code.TRIGGER_LITE_DISPATCH: ("TRIGGER_LITE_DISPATCH", "Group:{group}"),
    Code.POP_ROLLBACK: ("POP_ROLLBACK", CLUSTER),
    # the whole broker
    Code.UPDATE_BROKER_CONFIG: ("UPDATE_BROKER_CONFIG", CLUSTER),
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: ("CLEAN_EXPIRED_CONSUMEQUEUE", CLUSTER),
    Code.CLEAN_UNUSED_TOPIC: ("CLEAN_UNUSED_TOPIC", CLUSTER),
    Code.DELETE_EXPIRED_COMMITLOG: ("DELETE_EXPIRED_COMMITLOG", CLUSTER),
    Code.EXPORT_ROCKSDB_CONFIG_TO_JSON: ("EXPORT_ROCKSDB_CONFIG_TO_JSON", CLUSTER),
    Code.RESET_MASTER_FLUSH_OFFSET: ("RESET_MASTER_FLUSH_OFFSET", CLUSTER),
    Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: ("UPDATE_COLD_DATA_FLOW_CTR_CONFIG", CLUSTER),
    Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: ("REMOVE_COLD_DATA_FLOW_CTR_CONFIG", CLUSTER),
    Code.SET_COMMITLOG_READ_MODE: ("SET_COMMITLOG_READ_MODE", CLUSTER),
    Code.SWITCH_TIMER_ENGINE: ("SWITCH_TIMER_ENGINE", CLUSTER),
    # users and policies
    Code.AUTH_CREATE_USER: ("AUTH_CREATE_USER", "User:{username}"),
    Code.AUTH_UPDATE_USER: ("AUTH_UPDATE_USER", "User:{username}"),
    Code.AUTH_DELETE_USER: ("AUTH_DELETE_USER", "User:{username}"),
    Code.AUTH_CREATE_ACL: ("AUTH_CREATE_ACL", "{body_subject|subject}"),
    Code.AUTH_UPDATE_ACL: ("AUTH_UPDATE_ACL", "{body_subject|subject}"),
    Code.AUTH_DELETE_ACL: ("AUTH_DELETE_ACL", "{subject}"),
    # a nameserver
    Code.UPDATE_NAMESRV_CONFIG: ("UPDATE_NAMESRV_CONFIG", CLUSTER),
    Code.PUT_KV_CONFIG: ("PUT_KV_CONFIG", "Kv:{namespace}/{key}"),
    Code.DELETE_KV_CONFIG: ("DELETE_KV_CONFIG", "Kv:{namespace}/{key}"),
    Code.WIPE_WRITE_PERM_OF_BROKER: ("WIPE_WRITE_PERM_OF_BROKER", "Broker:{brokerName}"),
    Code.ADD_WRITE_PERM_OF_BROKER: ("ADD_WRITE_PERM_OF_BROKER", "Broker:{brokerName}"),
    Code.DELETE_TOPIC_IN_NAMESRV: ("DELETE_TOPIC_IN_NAMESRV", "Topic:{topic}"),
    Code.REGISTER_TOPIC_IN_NAMESRV: ("REGISTER_TOPIC_IN_NAMESRV", "Topic:{topic}"),
    Code.UNREGISTER_BROKER: ("UNREGISTER_BROKER", "Broker:{brokerName}"),
}  # fmt: skip
"""The code's name, and what it changes, by the fields of the request that say so."""
