"""Headers of topic administration: 17, 215, 216 and 351."""

from aerobee.remoting.headers.typed import Header, Int32


class CreateTopicRequest(Header, frozen=True, kw_only=True):
    """UPDATE_AND_CREATE_TOPIC (CreateTopicRequestHeader.java).

    `perm` holds Perm bits; `attributes` are edits, "+name=value" and "-name", comma-separated.
    """

    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


class DeleteTopicRequest(Header, frozen=True, kw_only=True):
    """DELETE_TOPIC_IN_BROKER and DELETE_TOPIC_IN_NAMESRV (which may name a cluster)."""

    topic: str
    cluster_name: str | None = None


class TopicRequest(Header, frozen=True, kw_only=True):
    """Any request about one topic, such as GET_TOPIC_CONFIG."""

    topic: str


class AllTopicConfigRequest(Header, frozen=True, kw_only=True):
    """GET_ALL_TOPIC_CONFIG: every topic, or a page of them in the order of their names.

    `data_version` is that of the page before (JSON); another one starts again at the first topic.
    """

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class AllTopicConfigReply(Header, frozen=True, kw_only=True):
    """How many topics there are in all."""

    total_topic_num: Int32
