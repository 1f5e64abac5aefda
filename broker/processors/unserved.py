"""Every request code that this broker does not serve, with the reason; it is answered with code 3.

A test holds this list, the registered processors and the table of all codes together.
"""

from collections.abc import Iterator
from typing import Final

from aerobee.remoting.codes import RequestCode as Code

NAMESERVER: Final = "the nameserver serves it"
CLIENT: Final = "the broker sends it to clients, which serve it"
CONTROLLER: Final = "it belongs to the controller, and there is none: one broker is one copy"
REPLICATION: Final = "it belongs to replication between brokers, which is not there yet"
UNDEFINED: Final = "RocketMQ defines the number and serves it nowhere"
POP: Final = "pop consumption is not there yet"
LITE: Final = "lite topics are not there yet"
ACL_1: Final = "RocketMQ removed its first access control in 5.3"
AUTH: Final = "users are kept where access control is switched on, see features/access"
CONTAINER: Final = "one process is one broker"

_BY_REASON: Final[dict[str, tuple[int, ...]]] = {
    NAMESERVER: (
        *range(Code.PUT_KV_CONFIG, Code.GET_BROKER_CLUSTER_INFO + 1),
        Code.WIPE_WRITE_PERM_OF_BROKER,
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        Code.DELETE_TOPIC_IN_NAMESRV,
        Code.REGISTER_TOPIC_IN_NAMESRV,
        Code.GET_KVLIST_BY_NAMESPACE,
        Code.GET_TOPICS_BY_CLUSTER,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        Code.GET_UNIT_TOPIC_LIST,
        Code.GET_HAS_UNIT_SUB_TOPIC_LIST,
        Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        Code.UPDATE_NAMESRV_CONFIG,
        Code.GET_NAMESRV_CONFIG,
        Code.QUERY_DATA_VERSION,
        Code.ADD_WRITE_PERM_OF_BROKER,
        Code.GET_BROKER_MEMBER_GROUP,
        Code.BROKER_HEARTBEAT,
    ),
    CLIENT: (
        Code.CHECK_TRANSACTION_STATE,
        Code.NOTIFY_CONSUMER_IDS_CHANGED,
        Code.RESET_CONSUMER_CLIENT_OFFSET,
        Code.GET_CONSUMER_STATUS_FROM_CLIENT,
        Code.PUSH_REPLY_MESSAGE_TO_CLIENT,
        Code.NOTIFY_UNSUBSCRIBE_LITE,
    ),
    UNDEFINED: (
        Code.QUERY_BROKER_OFFSET,
        Code.GET_TOPIC_CONFIG_LIST,
        Code.GET_TOPIC_NAME_LIST,
        Code.TRIGGER_DELETE_FILES,
        Code.GET_CLIENT_CONFIG,
        *range(Code.SUSPEND_CONSUMER, Code.WHO_CONSUME_THE_MESSAGE + 1),
        Code.REGISTER_FILTER_SERVER,
        Code.REGISTER_MESSAGE_FILTER_CLASS,
    ),
    POP: (
        *range(Code.POP_MESSAGE, Code.POP_ROLLBACK),
        Code.BATCH_ACK_MESSAGE,
    ),
    LITE: (
        Code.POP_LITE_MESSAGE,
        Code.LITE_SUBSCRIPTION_CTL,
        Code.ACK_LITE_MESSAGE,
    ),
    ACL_1: tuple(range(Code.UPDATE_AND_CREATE_ACL_CONFIG, Code.GET_BROKER_CLUSTER_ACL_CONFIG + 1)),
    AUTH: tuple(range(Code.AUTH_CREATE_USER, Code.AUTH_LIST_ACL + 1)),
    CONTAINER: (Code.ADD_BROKER, Code.REMOVE_BROKER),
    REPLICATION: (
        Code.NOTIFY_MIN_BROKER_ID_CHANGE,
        Code.EXCHANGE_BROKER_HA_INFO,
        Code.NOTIFY_BROKER_ROLE_CHANGED,
    ),
    CONTROLLER: (
        *range(Code.CONTROLLER_ALTER_SYNC_STATE_SET, Code.CONTROLLER_GET_SYNC_STATE_DATA + 1),
        *range(Code.UPDATE_CONTROLLER_CONFIG, Code.RAFT_BROKER_HEART_BEAT_EVENT_REQUEST + 1),
    ),
}


def _by_code() -> Iterator[tuple[int, str]]:
    seen: set[int] = set()
    for reason, codes in _BY_REASON.items():
        for code in codes:
            assert code not in seen, f"request code {code} is listed twice"
            seen.add(code)
            yield code, reason


UNSERVED: Final[dict[int, str]] = dict(sorted(_by_code()))
"""Request code to the reason why it is not served."""
