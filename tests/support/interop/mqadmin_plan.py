"""All commands of mqadmin 5.5.0, in an order in which each finds what it is about."""

import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from support.interop.cluster import Cluster
from support.interop.mqadmin import MqAdmin, Printed
from support.interop.raw_remoting import RawClient

AWAIT_SECONDS_MAX: Final = 90
COMMAND_SECONDS_MAX: Final = 60.0
GET_BROKER_CLUSTER_INFO: Final = 106
LOOPS_S: Final = 4.0  # what goes on for ever is watched for so long
STATISTICS_S: Final = 12.0  # sampled every ten seconds

LISTS: Final = {
    "topics.json": [
        {"topicName": "list-1", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6},
        {
            "topicName": "list-2", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
            "attributes": {"+message.type": "FIFO"},
        },
    ],
    "bad.json": [{"topicName": "list-3", "perm": 6}, {"topicName": "bad name!", "perm": 6}],
    "groups.json": [{"groupName": "list-g1", "retryMaxTimes": 3}, {"groupName": "list-g2"}],
}  # fmt: skip

PLAN: Final = """
updateTopic -c {cluster} -t t -r 4 -w 4
updateTopic -b {a} -t fifo -r 2 -w 2 -a +message.type=FIFO
updateTopic -b {a} -t bad!name
updateTopic -c {cluster} -t gone -r 1 -w 1
updateTopicList -b {a} -f {folder}/topics.json
updateTopicList -b {a} -f {folder}/bad.json
updateTopicPerm -b {a} -t t -p 4
updateTopicPerm -b {a} -t t -p 6
updateSubGroup -c {cluster} -g g -r 3
updateSubGroup -c {cluster} -g h
updateSubGroup -c {cluster} -g gone
updateSubGroupList -b {a} -f {folder}/groups.json
consume {n} g t
produce {n} p t 2
await
topicList
topicList -c
topicRoute -t t
topicRoute -t t -l
topicStatus -t t
topicStatus -t none
topicClusterList -t t
allocateMQ -t t -i 10.0.0.1,10.0.0.2
updateOrderConf -t t -m put -v broker-a:4
updateOrderConf -t t -m get
updateOrderConf -t t -m delete
deleteTopic -c {cluster} -t gone
getConsumerConfig -g g
setConsumeMode -b {a} -t t -g g -m PULL -q 0
consumerProgress -g g
consumerProgress -g g -t t
consumerProgress
consumerConnection -g g
consumerConnection -g nobody
consumerStatus -g g
producerConnection -g p -t t
producerConnection -g nobody -t t
producer -b {a}
cloneGroupOffset -s g -d h -t t
consumerProgress -g h
resetOffsetByTime -g h -t t -s 0
resetOffsetByTime -g h -t t -s now
skipAccumulatedMessage -g h -t t
deleteSubGroup -c {cluster} -g gone
sendMessage -t t -p hello -k key-1 -c TagB -b broker-a -i 2
sendMsgStatus -b broker-a -s 16 -c 2
checkMsgSendRT -t t -a 3 -s 16
queryMsgById -t t -i {id}
queryMsgByKey -t t -k k0
queryMsgByKey -t t -k none
queryMsgByUniqueKey -t t -i {uid}
queryMsgByOffset -t t -b broker-a -i 0 -o 0
queryMsgByOffset -t t -b broker-a -i 3 -o 7
queryMsgTraceById -i {uid}
printMsg -t fifo
printMsgByQueue -t t -a broker-a -i 0 -p true -d true
consumeMessage -t t -b broker-a -i 0 -o 0 -c 1
queryCq -b {a} -t t -q 0 -i 0 -c 2
queryCq -b {a} -t t -q 0 -i 0 -c 2 -g g
queryCq -b {a} -t t -q 0 -i 9 -c 2
queryCq -b {a} -t t -q 9 -i 0 -c 2
exportPopRecord -c {cluster} -d true
exportPopRecord -b {a}
dumpCompactionLog -f {folder}/none
haStatus -b {a}
brokerStatus -b {a}
clusterList
clusterList -m
clusterRT -c {cluster} -a 2 -s 16 -i 1
getBrokerConfig -b {a}
updateBrokerConfig -b {a} -k traceOn -v true
updateBrokerConfig -b {a} -k rocketmqHome -v /elsewhere
await
brokerConsumeStats -b {a}
brokerConsumeStats -b {a} -o true
cleanExpiredCQ -c {cluster}
cleanUnusedTopic -c {cluster}
deleteExpiredCommitLog -c {cluster}
getBrokerEpoch -b broker-a
resetMasterFlushOffset -b {a} -o 0
updateColdDataFlowCtrGroupConfig -b {a} -g g -v 100
getColdDataFlowCtrInfo -b {a}
removeColdDataFlowCtrGroupConfig -b {a} -g g
setCommitLogReadAheadMode -b {a} -m 0
setCommitLogReadAheadMode -b {a} -m 1
switchTimerEngine -b {a} -e F
switchTimerEngine -b {a} -e R
addBroker -c {a} -b {folder}/none.conf
removeBroker -c {a} -b {cluster}:broker-x:1
wipeWritePerm -b broker-c
addWritePerm -b broker-c
updateKvConfig -s space -k key -v value
deleteKvConfig -s space -k key
getNamesrvConfig
updateNamesrvConfig -k enableTopicList -v true
updateNamesrvConfig -k kvConfigPath -v /elsewhere
createUser -b {a} -u u1 -p secret -t Normal
updateUser -b {a} -u u1 -p secret2
getUser -b {a} -u u1
listUser -b {a}
copyUser -f {a} -t {b}
createAcl -b {a} -s User:u1 -r Topic:t -a Pub -d Allow -i 10.0.0.0/8
updateAcl -b {a} -s User:u1 -r Topic:t -a Sub -d Allow -i 10.0.0.0/8
getAcl -b {a} -s User:u1
listAcl -b {a}
copyAcl -f {a} -t {b}
deleteAcl -b {a} -s User:u1
deleteUser -b {a} -u u1
getControllerMetaData -a {a}
getSyncStateSet -a {a} -c {cluster} -b broker-a
electMaster -a {a} -b 0 -bn broker-a -c {cluster}
getControllerConfig -a {a}
updateControllerConfig -a {a} -k key -v value
cleanBrokerMetadata -a {a} -bn broker-a -c {cluster}
getBrokerLiteInfo -b {a}
getParentTopicInfo -p t
getLiteTopicInfo -p t -l light
getLiteClientInfo -p t -g g -c nobody
getLiteGroupInfo -p t -g g
triggerLiteDispatch -p t -g g
updateStaticTopic -t static -qn 3 -c {cluster}
topicStatus -t static
updateStaticTopic -t static -qn 3 -c {cluster}
updateStaticTopic -t static -qn 2 -c {cluster}
remappingStaticTopic -t static -b broker-a,broker-b
topicStatus -t static
updateStaticTopic -t t -qn 8 -c {cluster}
remappingStaticTopic -t none -c {cluster}
exportMetadata -c {cluster} -f {folder}/export
exportConfigs -c {cluster} -f {folder}/export
exportMetrics -c {cluster} -f {folder}/export
exportMetadataInRocksDB -p {folder}/none -t topics -j true
rocksDBConfigToJson -c {cluster} -t topics
checkRocksdbCqWriteProgress -c {cluster} -t t
startMonitoring
statistics
statsAll -t t
"""
"""A command a line; `await`, `statistics` wait until the group has consumed all, and is counted.

Where the log ends is asked for before `clusterRT`, which sends as often as there is time.
"""

ENDLESS: Final = {
    "clusterRT": re.compile(r"(broker-[abc]) +\d+\.\d+ +2 +0"),
    "startMonitoring": None,  # prints what is wrong, and nothing is
}
"""What goes on for ever, and the lines of which there is to be one of each broker at least."""
OWN: Final = frozenset({"consume", "produce", "await", "statistics"})
_CONSUMED: Final = re.compile(r" ([1-9]\d*) +\1 +0 ")
_SENT: Final = re.compile(r"(\S+) (\d+) (\S+) (\S+) SEND_OK")


class Done(NamedTuple):
    """A command that was run, under a name of its own, and what it printed and wrote."""

    label: str
    printed: Printed
    seconds: float


def labels() -> list[str]:
    """Name every step: by its command, and from the second time on with a number."""
    seen: Counter[str] = Counter()
    named = []
    for line in PLAN.split("\n")[1:-1]:
        name = line.split()[0]
        seen[name] += 1
        named.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return named


def transcript(brokers: list[Cluster], admin: MqAdmin, folder: Path) -> Iterator[Done]:
    """Run the plan; what a command has written into `export` comes behind what it printed."""
    for file, content in LISTS.items():
        (folder / file).write_text(json.dumps(content))
    words = dict(zip("abc", (each.broker for each in brokers), strict=True))
    words |= {"n": brokers[0].namesrv, "cluster": "DefaultCluster", "folder": str(folder)}
    for label, line in zip(labels(), PLAN.split("\n")[1:-1], strict=True):
        command = [word.format(**words) for word in line.split(" ")]
        _wait_for_all(brokers)
        began_s = time.monotonic()
        if command[0] == "await":
            printed = _consumed(admin, brokers)
        elif command[0] == "statistics":
            time.sleep(STATISTICS_S)
            printed = Printed("", True)
        else:
            rest = [] if command[0] in OWN else ["-n", words["n"]]
            limit_s = LOOPS_S if command[0] in ENDLESS else COMMAND_SECONDS_MAX
            printed = admin.run([*command, *rest], limit_s)
            wanted = ENDLESS.get(command[0])
            while wanted and len({*wanted.findall(printed.text)}) < len(brokers):
                limit_s *= 2
                assert limit_s < COMMAND_SECONDS_MAX, printed.text
                printed = admin.run([*command, *rest], limit_s)
        if command[0] == "produce":
            sent = _SENT.search(printed.text)
            assert sent is not None, printed.text
            words |= {"uid": sent[3], "id": sent[4]}
        written = folder / "export"
        for path in sorted(written.rglob("*")) if written.exists() else ():
            if path.is_file():
                text = f"{printed.text}\n{path.name}\n{path.read_text()}"
                printed = printed._replace(text=text)
        shutil.rmtree(written, ignore_errors=True)
        yield Done(label, printed, time.monotonic() - began_s)


def _wait_for_all(brokers: list[Cluster]) -> None:
    """Return once the nameserver lists all brokers.

    On a busy machine RocketMQ's registers late, and is gone until it does again.
    """
    deadline_s = time.monotonic() + AWAIT_SECONDS_MAX
    with RawClient(brokers[0].namesrv) as client:
        while True:
            listed = client.call(GET_BROKER_CLUSTER_INFO).body
            if all(each.broker.encode() in listed for each in brokers):
                return
            assert time.monotonic() < deadline_s, listed
            time.sleep(0.2)


def _consumed(admin: MqAdmin, brokers: list[Cluster]) -> Printed:
    """Ask until it is known that group g has consumed all, of six queues at least.

    And until each broker knows the producer, who beats every 30 s, the first time without a route.
    """
    namesrv = ["-n", brokers[0].namesrv]
    deadline_s = time.monotonic() + AWAIT_SECONDS_MAX
    while True:
        printed = admin.run(["consumerProgress", "-g", "g", *namesrv])
        known = [admin.run(["producer", "-b", each.broker, *namesrv]).text for each in brokers]
        consumed = "Diff Total: 0" in printed.text and len(_CONSUMED.findall(printed.text)) >= 6
        if consumed and all("group (p)" in each for each in known):
            return printed
        assert time.monotonic() < deadline_s, (printed.text, known)
        time.sleep(0.5)
