"""What `capture_behaviour.py` asks RocketMQ of what few tools ask for, right and wrong."""

import json
from typing import Any, Final

from support.golden.probes import Probe, broker, group, heartbeat, namesrv, send, topic


def topics(name: str, *configs: dict[str, Any]) -> Probe:
    """Create topics of four queues together (18)."""
    usual = {"readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
    wanted = [usual | config for config in configs]
    return broker(f"topics: {name}", 18, json.dumps({"topicConfigList": wanted}))


def groups(name: str, *configs: dict[str, Any]) -> Probe:
    """Create groups together (225)."""
    return broker(f"groups: {name}", 225, json.dumps({"groupConfigList": list(configs)}))


def entries(name: str, **changes: Any) -> Probe:
    """Look at a queue (321), at none of its entries, whose places differ from run to run."""
    usual = {"topic": "probe", "queueId": 0, "index": 0, "count": 0}
    return broker(f"entries: {name}", 321, **(usual | changes))


def statistic(name: str, key: str | None) -> Probe:
    """Ask for a statistic (315)."""
    return broker(f"statistic: {name} of {key}", 315, statsName=name, statsKey=key)


ADMINISTRATION: Final[list[Probe]] = [
    broker("copies", 907),
    topic("probe"),
    group("probe-group"),
    topics("two", {"topicName": "probe-1"}, {"topicName": "probe-2", "perm": 4}),
    broker("topic config of the first", 351, topic="probe-1"),
    broker("topic config of the second", 351, topic="probe-2"),
    topics("the second has a bad name", {"topicName": "probe-3"}, {"topicName": "bad name!"}),
    broker("topic config of none", 351, topic="probe-3"),
    topics("a name is blank", {"topicName": " "}),
    topics("a system topic", {"topicName": "probe-3"}, {"topicName": "TBW102"}),
    topics(
        "with an attribute",
        {"topicName": "probe-fifo", "attributes": {"+message.type": "FIFO"}},
    ),
    broker("topic config with an attribute", 351, topic="probe-fifo"),
    topics("mixed", {"topicName": "probe-3", "attributes": {"+message.type": "MIXED"}}),
    topics("unknown attribute", {"topicName": "probe-4", "attributes": {"+no.such": "1"}}),
    topics("one is as it is", {"topicName": "probe-1"}, {"topicName": "probe-5"}),
    broker("topic config of the other", 351, topic="probe-5"),
    topics("none"),
    broker("topics: no JSON", 18, "{nonsense"),
    groups("two", {"groupName": "probe-group-1"}, {"groupName": "probe-group-2"}),
    broker("group config of the first", 352, group="probe-group-1"),
    groups("a bad name", {"groupName": "probe-group-3"}, {"groupName": "bad group!"}),
    groups("a blank name", {"groupName": ""}),
    groups("none"),
    broker("groups: no JSON", 225, "{nonsense"),
    statistic("TOPIC_PUT_NUMS", "probe"),
    statistic("NO_SUCH_NAME", "probe"),
    statistic("GROUP_GET_NUMS", "probe"),
    statistic("BROKER_PUT_NUMS", "no-cluster"),
    entries("of an unknown topic", topic="probe-none"),
    entries("of a queue without messages"),
    *[send(f"message {number}") for number in range(2)],
    entries("of two"),
    entries("behind the end", index=2),
    entries("before the beginning", index=-1),
    entries("for a group that is away", consumerGroup="probe-group"),
    heartbeat("a live consumer"),
    entries("for a group that is there", consumerGroup="probe-live"),
    broker("flush offset of a master", 908, masterFlushOffset=7),
    broker("flush offset that is not said", 908),
    broker("epochs", 1007),
    broker("queues in RocksDB", 354, topic="probe", checkStoreTime=0),
    broker("export tables", 355, configType="topics;subscriptionGroups;consumerOffsets;"),
    broker("export a table in capitals", 355, configType="TOPICS"),
    broker("limits of old data", 2003),
    broker("set a limit", 2001, "probe-group=100"),
    broker("limits after", 2003),
    broker("set no limit", 2001),
    broker("set a limit that is no number", 2001, "probe-group=many"),
    broker("remove a limit", 2002, "probe-group"),
    broker("remove a limit that is not there", 2002, "probe-nobody"),
    broker("limits at last", 2003),
    broker("read ahead: nothing said", 2004),
    broker("read ahead: normal", 2004, READ_AHEAD_MODE=0),
    broker("read ahead: random", 2004, READ_AHEAD_MODE=1),
    broker("read ahead: another", 2004, READ_AHEAD_MODE=5),
    broker("read ahead: no number", 2004, READ_AHEAD_MODE="many"),
    broker("timers: nothing said", 5001),
    broker("timers: something else said", 5001, other=1),
    broker("timers: RocksDB", 5001, E_T="R"),
    broker("timers: files", 5001, E_T="F"),
    broker("timers: another", 5001, E_T="X"),
    broker("pop back", 200056),
    broker("parent topic that is not there", 200075, topic="probe-none"),
    broker("parent topic of another type", 200075, topic="probe"),
    broker("lite topic without parent", 200076, parentTopic="probe-none", liteTopic="x"),
    broker("lite topic of another type", 200076, parentTopic="probe", liteTopic="x"),
    broker("lite client", 200077, parentTopic="probe", group="probe-group", clientId="c"),
    broker("lite group", 200078, group="probe-group", topK=9),
    broker("lite dispatch", 200079, group="probe-group"),
    topic("probe-lite", attributes="+message.type=LITE"),
    broker("lite parent", 200075, topic="probe-lite"),
    broker("lite topic", 200076, parentTopic="probe-lite", liteTopic="x"),
    broker("lite client of none", 200077, parentTopic="probe-lite", group="probe-group"),
    broker("add a broker", 902),
    broker("remove a broker", 903),
    namesrv("settings: on the black list", 318, "kvConfigPath=/elsewhere"),
    namesrv("settings: no pair", 318, "nonsense"),
    namesrv("settings: a switch", 318, "enableTopicList=true"),
]
