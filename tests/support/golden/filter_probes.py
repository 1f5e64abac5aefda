"""What `capture_behaviour.py` asks RocketMQ about SQL92 filters, off and on."""

import json
from typing import Any, Final

from support.golden.probes import CLIENT_ID, Probe, broker, group, heartbeat, pull, send, topic

GROUP: Final = "probe-sql"


def priced(number: int) -> Probe:
    """Send a message with two properties."""
    return send(f"price {number}", i=f"price\x01{number}\x02color\x01red\x02")


def check(name: str, expression: str | None, kind: str = "SQL92") -> Probe:
    """Ask before the start whether an expression can be evaluated (46)."""
    subscription = {"topic": "probe", "subString": expression, "expressionType": kind}
    given = {key: value for key, value in subscription.items() if value is not None}
    body = {"clientId": CLIENT_ID, "group": GROUP, "subscriptionData": given}
    return broker(f"check: {name}", 46, json.dumps(body))


def subscribe(name: str, expression: str, version: int, kind: str = "SQL92") -> Probe:
    """A heartbeat with one expression."""
    subscription: dict[str, Any] = {
        "topic": "probe",
        "subString": expression,
        "subVersion": version,
        "classFilterMode": False,
        "tagsSet": [],
        "codeSet": [],
        "expressionType": kind,
    }
    return heartbeat(name, groupName=GROUP, subscriptionDataSet=[subscription])


def live(name: str, version: int = 10) -> Probe:
    """A pull that relies on the heartbeat."""
    return pull(name, consumerGroup=GROUP, sysFlag=0, subVersion=version, expressionType=None)


def brought(name: str, expression: str | None, kind: str = "SQL92", **changes: Any) -> Probe:
    """A pull that brings its expression."""
    return pull(name, subscription=expression, expressionType=kind, **changes)


FILTERS: Final[list[Probe]] = [
    topic("probe"),
    group("probe-group"),
    group(GROUP),
    *[priced(number) for number in (5, 15, 25)],
    subscribe("good, while off", "price > 10", 10),
    live("good, while off"),
    subscribe("bad, while off", "price >", 11),
    live("bad, while off", 11),
    brought("brought, while off", "price > 10"),
    brought("of a type that nobody knows, while off", "price > 10", "SQL99"),
    check("good, while off", "price > 10"),
    broker("switch filters on", 25, "enablePropertyFilter=true"),
    check("good", "price > 10"),
    check("cut off", "price >"),
    check("of types that do not fit", "price > 'x'"),
    check("an empty one", ""),
    check("of a type that nobody knows", "price > 10", "SQL99"),
    live("bad", 11),
    live("newer than the heartbeat", 12),
    subscribe("mended", "price > 10", 12),
    live("mended", 12),
    live("older than the heartbeat", 11),
    subscribe("nothing matches", "price > 100", 13),
    live("nothing matches", 13),
    subscribe("an older version", "price > 20", 5),
    live("after an older version", 13),
    subscribe("tags", "*", 14, "TAG"),
    live("tags", 14),
    subscribe("of a type that nobody knows", "price > 10", 15, "SQL99"),
    live("of a type that nobody knows", 15),
    brought("brought", "price BETWEEN 10 AND 20"),
    brought("matches nothing", "price > 100"),
    brought("cannot be evaluated", "color > 5"),
    brought("an empty one", ""),
    brought("none", None),
    brought("behind the end", "price > 10", queueOffset=3),
    brought("brought, of a type that nobody knows", "price > 10", "SQL99"),
    brought("brought, bad", "price >"),
    brought("with bytes to spare", "price > 1", maxMsgBytes=1),
]
