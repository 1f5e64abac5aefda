"""What of mqadmin's output cannot be the same, or is not meant to be, and why."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from support.interop.cluster import Cluster
from support.interop.mqadmin import NAMES
from support.interop.mqadmin_plan import ENDLESS


class Difference(NamedTuple):
    """Lines of one command that are not compared; `line` is looked for in each."""

    label: str
    line: str
    why: str


_ALL: Final = ""  # is found in every line
_ACCESS: Final = (
    "users and policies are compared where access control is tested; here nobody keeps them, and"
    " RocketMQ then answers with whatever went wrong inside"
)
_TRANSACTIONS: Final = "our broker notes from the start how far it has looked at half messages"
_POOLS: Final = "there are no pools of threads whose queues had a size"
_UNMEASURED: Final = "not measured here, where one turn of the loop stores what many requests bring"

DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference("topicList-2", "RMQ_SYS_TRANS_(OP_)?HALF_TOPIC", _TRANSACTIONS),
    Difference("allocateMQ", "^{", "computed by the tool, in the order of a set of queues"),
    Difference("brokerStatus", "^fastPathServedBy", "ours"),
    Difference("brokerStatus", "Tps ?:", "RocketMQ leaves out windows that reach before its start"),
    Difference("brokerStatus", "Capacity ?:|HeadWaitTimeMills", _POOLS),
    Difference("brokerStatus", "^remain", _POOLS),
    Difference("brokerStatus", "EntireTimeMax|DistributeTime|Latency|LockTime", _UNMEASURED),
    Difference("brokerStatus", "^msg(Get|Put)Total", "RocketMQ leaves out system topics"),
    Difference("brokerStatus", "^putMessage(Times|Size|AverageSize)", "likewise"),
    Difference("brokerStatus", "^(runtime|bootTimestamp|earliest|startAccept)", "a time"),
    Difference("brokerStatus", "DiskRatio|DirCapacity|Offset ?:", "a measure, a place in the log"),
    Difference("clusterList-2", "DefaultCluster", "RocketMQ leaves out system topics"),
    Difference("getBrokerConfig", "^(haL|l)istenPort|^osPageCacheBusy", "of the test"),
    Difference("getBrokerConfig", "^stor(e|age)Path", "a place"),
    Difference("getNamesrvConfig", "^listenPort", "of the test"),
    Difference("setCommitLogReadAheadMode-2", _ALL, "old data is not read through maps here"),
    *[
        Difference(label, _ALL, _ACCESS)
        for label in (
            "createUser", "updateUser", "getUser", "listUser", "copyUser", "deleteUser",
            "createAcl", "updateAcl", "getAcl", "listAcl", "copyAcl", "deleteAcl",
        )
    ],
    Difference("getBrokerLiteInfo", " default 20000 ", _TRANSACTIONS),
    Difference("topicStatus-4", "^__syslo__", "the tool deals out queues by chance"),
    Difference("exportMetadata", _ALL, "of RocketMQ the tool cannot read the list of groups (201)"),
    Difference("exportMetrics", _ALL, "likewise"),
    Difference("exportConfigs", "useTLS", "the broker as a client of its nameservers; not a key"),
    Difference("statsAll", "^t ", "a day ends with the newest sample, not the last full hour"),
)  # fmt: skip

COMMON_KEYS: Final = frozenset({"getBrokerConfig", "getNamesrvConfig"})
"""Of these only the settings that both have are compared."""

_MASKS: Final = (
    (re.compile(r"\b20\d\d-\d\d-\d\d[ T#]\d\d:\d\d:\d\d(?:[:,.]\d+)?"), "<time>"),
    (re.compile(r"\b20\d{12,15}\b"), "<time>"),
    (re.compile(r"\b1[789]\d{11}\b"), "<ms>"),
    (re.compile(r"\b[0-9A-F]{32,}\b"), "<id>"),
    (re.compile(r"/?\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?"), "<address>"),
    (re.compile(r"\b\d+\.\d+(?:E-?\d+)?\b"), "<fraction>"),
    # of clusterList: calls that wait, for how long, and how far timers are behind
    (re.compile(r"\(\d+,\s*\d+ms(?:\s*\|\s*\d+,\s*\d+ms)?\)"), "(<load>)"),
    (re.compile(r"\b\d+-\d+\s*\((?=[\d<])"), "<behind>("),
    (re.compile(r"(?<=, <fraction>\))\s+\d+\b"), " <ms>"),  # how long a message has held the log
    (re.compile(r"\b(\w+(?:QueueSize|Behind|BehindBytes|CongestNum)\s*:) \d+"), r"\1 <load>"),
    (re.compile(r"\brt=\d+ms"), "rt=<ms>"),
    (re.compile(r"\btrue\s+\d+\s*$"), "true <ms>"),  # of checkMsgSendRT
    (re.compile(r"BROKER: <broker-.>"), "BROKER: <broker>"),  # the tool asks any of them
    (re.compile(r"[ \t]+"), " "),
)
_LOGGING: Final = re.compile(r" \|-(?:INFO|WARN) in ")
_TRACE: Final = re.compile(r"\s+at \S+\(.*\)$|\s*\.\.\. \d+ (?:more|common frames omitted)$")


def lines(text: str, brokers: Sequence[Cluster], folder: Path) -> list[str]:
    """Return what was printed without what differs from run to run, line by line."""
    words = {broker.broker: f"<{name}>" for name, broker in zip(NAMES, brokers, strict=True)}
    words |= {brokers[0].namesrv: "<namesrv>", str(folder): "<folder>"}
    for word, mask in words.items():
        text = text.replace(word, mask)
    found = []
    for line in text.splitlines():
        if _TRACE.fullmatch(line) or _LOGGING.search(line):
            continue
        for pattern, mask in _MASKS:
            line = pattern.sub(mask, line)
        if line.strip():
            found.append(line.strip())
    return found


def comparable(ours: list[str], theirs: list[str], label: str) -> tuple[list[str], list[str]]:
    """Return the lines that have to be the same, sorted: many are printed in the order of a set."""
    left_out = [each.line for each in DIFFERENCES if each.label == label]
    kept = [
        [line for line in printed if not any(re.search(each, line) for each in left_out)]
        for printed in (ours, theirs)
    ]
    if label in COMMON_KEYS:
        common = set.intersection(*({line.split(" =")[0] for line in lines} for lines in kept))
        kept = [[line for line in lines if line.split(" =")[0] in common] for lines in kept]
    if label in ENDLESS:  # as often as there was time
        kept = [list(set(lines)) for lines in kept]
    return sorted(kept[0]), sorted(kept[1])
