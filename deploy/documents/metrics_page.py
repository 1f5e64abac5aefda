"""Every metric that a broker may tell, by the room that tells it."""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import aerobee.broker
from aerobee.broker.measures.names import BARE, HELP, SWITCHES, instrument, switched_off
from aerobee.broker.room import Room
from deploy.documents.tables import code, table


@cache
def metric_help() -> Mapping[str, tuple[str, str]]:
    """Return the room and the help of each metric, those of all features among them."""
    found = {name: ("measures", said) for name, said in HELP.items()}
    for kind in _rooms():
        told: Any = kind.metric_help
        room = kind.__module__.removeprefix("aerobee.broker.").rpartition(".")[0]
        # what a room says does not depend on the broker that has it
        for name, said in told.fget(object.__new__(kind)).items():
            found[name] = (room.replace(".", "/"), said)
    return found


def metrics() -> str:
    """Return the table of metrics, RocketMQ's first."""
    rows = (
        (code(name), _otlp(name), _switch(name), room, said)
        for name, (room, said) in sorted(metric_help().items(), key=lambda each: _order(each[0]))
    )
    head = ("metric", "in OpenTelemetry", "left out by", "told by", "")
    bare = table(("name", "is"), ((code(name), code(long)) for name, long in BARE.items()))
    return f"{table(head, rows)}\n\n## Older names\n\n{bare}"


def _order(name: str) -> tuple[bool, str]:
    return not name.startswith("rocketmq_"), name


def _otlp(name: str) -> str:
    short = instrument(name)
    return f"{code(short.name)} {short.unit}".strip() if short.name != name else ""


def _switch(name: str) -> str:
    for family in SWITCHES:
        if switched_off(name, frozenset({family})):
            words = "".join(word.capitalize() for word in family.split("_"))
            return code(f"enable{words}Metrics")
    return ""


def _rooms() -> Iterator[type[Room]]:
    """Yield every class of a room; their modules are imported for that."""
    for module in pkgutil.walk_packages(aerobee.broker.__path__, "aerobee.broker."):
        if module.name.rpartition(".")[2] in ("parts", "feature"):
            for value in vars(importlib.import_module(module.name)).values():
                own = isinstance(value, type) and value.__module__ == module.name
                if own and issubclass(value, Room) and "metric_help" in vars(value):
                    yield value
