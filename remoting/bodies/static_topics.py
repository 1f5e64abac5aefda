"""Bodies of static topics: which physical queues, on which brokers, a logical queue has had."""

from aerobee.remoting.bodies._codec import Body
from aerobee.remoting.bodies.topics import DataVersion, TopicConfig
from aerobee.remoting.headers.typed import Int32, Int64
from aerobee.remoting.words import SCOPE_GLOBAL


class LogicQueueMappingItem(Body, frozen=True, kw_only=True, gc=False):
    """A stretch of a logical queue: a physical queue of one broker (LogicQueueMappingItem.java).

    `logic_offset` is the logical offset of the message at `start_offset`, -1 while it is not
    decided; `end_offset`, which is not of the stretch any more, is -1 where it is open.
    """

    gen: Int32 = 0
    queue_id: Int32 = 0
    bname: str = ""
    logic_offset: Int64 = 0
    start_offset: Int64 = 0
    end_offset: Int64 = -1
    time_of_start: Int64 = -1
    time_of_end: Int64 = -1


class TopicQueueMappingInfo(Body, frozen=True, kw_only=True):
    """What nameservers know of a static topic on one broker (TopicQueueMappingInfo.java).

    `curr_id_map` has the physical queue of each logical one that the broker leads; `epoch` tells
    newer from older.
    """

    topic: str = ""
    scope: str = SCOPE_GLOBAL
    total_queues: Int32 = 0
    bname: str = ""
    epoch: Int64 = 0
    dirty: bool = False
    curr_id_map: dict[Int32, Int32] = {}


class TopicQueueMappingDetail(TopicQueueMappingInfo, frozen=True, kw_only=True):
    """The same with the stretches of each logical queue that the broker leads, or led before."""

    hosted_queues: dict[Int32, list[LogicQueueMappingItem]] = {}


class TopicQueueMappings(Body, frozen=True, kw_only=True):
    """The static topics of a broker; topicQueueMapping.json (TopicQueueMappingSerializeWrapper)."""

    topic_queue_mapping_info_map: dict[str, TopicQueueMappingDetail] = {}
    data_version: DataVersion = DataVersion()


class TopicConfigAndQueueMapping(TopicConfig, frozen=True, kw_only=True):
    """A topic with its mapping, where it has one and it is asked for; the reply to 351."""

    mapping_detail: TopicQueueMappingDetail | None = None
