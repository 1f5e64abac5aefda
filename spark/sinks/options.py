"""The options of `write` and `writeStream` with `format("rocketmq")`, parsed on the driver."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aerobee.client.errors import InvalidMessage
from aerobee.client.message import TOPIC_CHARACTERS_MAX, check_name
from aerobee.spark.errors import OptionError
from aerobee.spark.options import values
from aerobee.spark.options.address import NetworkAddress
from aerobee.spark.options.network import CONNECTING, network_address
from aerobee.spark.options.places import spelled_once
from aerobee.spark.options.table import own_options

_CHECKPOINT: Final = "checkpointLocation"  # Spark's own, which it hands on to sources


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where a write goes, and `sink`, by which attempts of the same write know each other.

    `topic` is None where rows name theirs.
    """

    address: NetworkAddress
    topic: str | None
    sink: str


def parse_sink_options(given: Mapping[str, str], *, stream: bool) -> SinkOptions:
    """The options of a write; names in any case. Raises OptionError."""
    by_name = own_options(given, _PARSERS)
    for name in by_name:
        if name not in _PARSERS and name != _CHECKPOINT.lower():
            spelled = [spelling for spelling, _ in _PARSERS.values()]
            raise OptionError(f"write: unknown option {values.near(name, spelled)}")

    def take(name: str, default: Any = None) -> Any:
        spelling, parse = _PARSERS[name.lower()]
        return parse(spelling, by_name[name.lower()]) if name.lower() in by_name else default

    if "namesrv" not in by_name:
        raise OptionError(
            "write: option namesrv is missing: name the nameservers of the cluster to write to, as"
            " '10.0.0.5:9876'"
        )
    return SinkOptions(
        network_address(by_name, take), take("topic"), _sink(take("sinkId"), by_name, stream=stream)
    )


def _sink(given: str | None, options: Mapping[str, str], *, stream: bool) -> str:
    if not stream:
        if given is not None:
            raise OptionError(
                "write: option sinkId is one of writeStream: what a query writes a second time is"
                " written twice"
            )
        return uuid.uuid4().hex
    if given is not None:
        return given
    checkpoint = options.get(_CHECKPOINT.lower())
    if not checkpoint:
        raise OptionError(
            "writeStream: name the sink by the option sinkId, or give checkpointLocation as an"
            " option of the query: a restarted query finds by it what it has written before"
        )
    return "checkpoint-" + hashlib.sha256(spelled_once(checkpoint).encode()).hexdigest()[:24]


def _topic(option: str, value: str) -> str:
    try:
        check_name("topic", value.strip(), TOPIC_CHARACTERS_MAX)
    except InvalidMessage as error:
        raise OptionError(f"write: option {option}: {error}") from None
    return value.strip()


_PARSERS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    spelling.lower(): (spelling, parse)
    for spelling, parse in (
        ("namesrv", values.nameservers),
        ("topic", _topic),
        *CONNECTING,
        ("sinkId", values.group),
    )
}
