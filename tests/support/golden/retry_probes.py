"""What `capture_behaviour.py` asks RocketMQ about delays, retries and dead letters.

The first message of a fresh store lies at position 0; nothing that is counted waits less than two
hours, so that no delivery changes an answer.
"""

from typing import Any, Final

from support.golden.probes import Probe, batch_body, broker, group, pull, send, topic, variants

BACK: Final[dict[str, Any]] = {
    "offset": 0,
    "group": "probe-group",
    "delayLevel": 18,
    "originMsgId": "0",
    "originTopic": "probe",
    "unitMode": False,
    "maxReconsumeTimes": 16,
}


def delayed(level: str) -> str:
    """Properties with a delay level."""
    return f"TAGS\x01TagA\x02DELAY\x01{level}\x02"


RETRIES: Final[list[Probe]] = [
    topic("probe"),
    group("probe-group", retryQueueNums=1),
    group("probe-no-retries", retryQueueNums=0),
    group("probe-once", retryMaxTimes=0),
    send("at position 0"),
    send("level 18", i=delayed("18")),
    send("level 18 once more", i=delayed("18")),
    send("level 99 is the last", i=delayed("99")),
    send("level 0 waits not", i=delayed("0")),
    send("level -1 waits not", i=delayed("-1")),
    send("level +18", i=delayed("+18")),
    send("level that is a word", i=delayed("soon")),
    send("level with a space", i=delayed(" 18")),
    send("level beyond an int", i=delayed("2147483648")),
    send("level and timer", i=delayed("18") + "TIMER_DELAY_SEC\x013\x02"),
    send("level to queue 3", e=3, i=delayed("18")),
    send("batch with a level", batch_body(b"one", properties=b"DELAY\x0118\x02"), 320, m=True),
    *variants(
        "send back",
        36,
        BACK,
        {
            "level 18": {},
            "level 0": {"delayLevel": 0},
            "level 99": {"delayLevel": 99},
            "level -1": {"delayLevel": -1},
            "max times 0": {"maxReconsumeTimes": 0},
            "group's max times 0": {"group": "probe-once", "maxReconsumeTimes": None},
            "no origin": {"originMsgId": None, "originTopic": None, "unitMode": None},
            "unit mode": {"group": "probe-units", "unitMode": True},
            "unknown group": {"group": "probe-unknown"},
            "group with a bad name": {"group": "bad name"},
            "group without retries": {"group": "probe-no-retries"},
            "position -1": {"offset": -1},
            "position inside a record": {"offset": 1},
            "position far behind": {"offset": 1 << 60},
            "without position": {"offset": None},
            "without group": {"group": None},
            "without level": {"delayLevel": None},
        },
    ),
    send("to a retry topic", b="%RETRY%probe-group", j=1, i=delayed("18")),
    send("to a retry topic without level", b="%RETRY%probe-group", j=16),
    send("to a retry topic too often", b="%RETRY%probe-group", j=17, i=delayed("18")),
    send("to a retry topic of an unknown group", b="%RETRY%probe-fresh", j=1),
    send("to a retry topic's queue 9", b="%RETRY%probe-group", j=1, e=9),
    send("to a topic of dead letters", b="%DLQ%probe-group"),
    pull("dead letters", topic="%DLQ%probe-group"),
    pull("retries", topic="%RETRY%probe-group"),
    *(
        broker(f"topic {name}", 351, topic=name)
        for name in ("%RETRY%probe-group", "%DLQ%probe-group", "%RETRY%probe-units")
    ),
    broker("retries of a group that wants none", 351, topic="%RETRY%probe-no-retries"),
]
