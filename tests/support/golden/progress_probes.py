"""What `capture_behaviour.py` asks RocketMQ about the progress of groups, and who may read."""

from typing import Any, Final

from support.golden.probes import Probe, broker, group, heartbeat, pull, send, topic

LIVE: Final = "probe-live"


def commit(name: str, topic_name: str, offset: int) -> Probe:
    """Commit an offset of queue 0 (15)."""
    return broker(
        f"commit for {name} in {topic_name}",
        15,
        consumerGroup=name,
        topic=topic_name,
        queueId=0,
        commitOffset=offset,
    )


def committed(name: str, topic_name: str) -> Probe:
    """Ask for the offset of queue 0 (14)."""
    return broker(
        f"committed by {name} in {topic_name}",
        14,
        consumerGroup=name,
        topic=topic_name,
        queueId=0,
        setZeroIfNotFound=False,
    )


def forbidden(name: str, **fields: Any) -> Probe:
    """Close a topic to a group, open it, or ask (353)."""
    return broker(f"forbidden: {name}", 353, **({"group": LIVE, "topic": "probe"} | fields))


def clone(name: str, **fields: Any) -> Probe:
    """Give one group the offsets of another (314)."""
    usual = {"srcGroup": LIVE, "destGroup": "probe-copy", "topic": "probe", "offline": False}
    return broker(f"clone: {name}", 314, **(usual | fields))


def live(name: str, **changes: Any) -> Probe:
    """A pull of the live group."""
    return pull(name, consumerGroup=LIVE, sysFlag=0, subVersion=10, **changes)


PROGRESS: Final[list[Probe]] = [
    topic("probe", 2),
    topic("probe-empty", 2),
    group(LIVE),
    heartbeat("a live consumer"),
    *[send(f"message {number}") for number in range(4)],
    commit(LIVE, "probe", 3),
    commit("probe-behind", "probe", 1),
    commit("probe-ahead", "probe", 4),
    broker("time span of an empty topic", 303, topic="probe-empty", group=LIVE),
    broker("time span in an unknown topic", 303, topic="probe-none", group=LIVE),
    broker("subscription", 345, group=LIVE, topic="probe"),
    broker("subscription to another topic", 345, group=LIVE, topic="probe-empty"),
    broker("subscription of nobody", 345, group="probe-nobody", topic="probe"),
    broker("topics of a group", 343, group=LIVE),
    broker("topics of nobody", 343, group="probe-nobody"),
    broker("progress of nobody", 208, consumerGroup="probe-nobody"),
    broker("members of nobody", 203, consumerGroup="probe-nobody"),
    broker("producers of nobody", 204, producerGroup="probe-nobody"),
    broker("least offsets", 308, topic="probe", compareGroup=LIVE),
    broker(
        "least offsets, compared with the last", 308, topic="probe", compareGroup="probe-behind"
    ),
    broker("least offsets, compared with nobody", 308, topic="probe", compareGroup="probe-nobody"),
    broker("least offsets of an unknown topic", 308, topic="probe-none", compareGroup=LIVE),
    clone("in one topic"),
    committed("probe-copy", "probe"),
    clone("in an unknown topic", topic="probe-none"),
    clone("of nobody", srcGroup="probe-nobody"),
    forbidden("asked"),
    forbidden("closed", readable=False),
    live("closed"),
    forbidden("asked again"),
    forbidden("opened", readable=True),
    live("opened", queueOffset=4),
    forbidden("opened though it is open", readable=True),
    forbidden("asked of nobody", group="probe-nobody"),
    forbidden("lite pulls are another thing", readable=False),
    broker("switch lite pulls off", 25, "litePullMessageEnable=false"),
    pull("lite while it is off", 361, consumerGroup=LIVE),
    broker("reject pull consumers", 25, "rejectPullConsumerEnable=true"),
    pull("rejected", consumerGroup="probe-puller"),
    pull("of a push group", consumerGroup=LIVE, queueOffset=4),
    pull("of the tools", consumerGroup="TOOLS_CONSUMER", queueOffset=4),
]
