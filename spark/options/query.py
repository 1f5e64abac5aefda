"""The options of `format("rocketmq")`: parsed, and refused, before any task starts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from aerobee.spark.errors import OptionError
from aerobee.spark.offsets import EARLIEST, LATEST, Offsets, parse_assign, parse_offsets
from aerobee.spark.options import values
from aerobee.spark.options.address import NetworkAddress
from aerobee.spark.options.network import CONNECTING, network_address
from aerobee.spark.options.table import own_options
from aerobee.spark.records.columns import CORRUPT, PROPERTIES, USUAL
from aerobee.spark.records.damage import DROPMALFORMED, FAILFAST, PERMISSIVE
from aerobee.spark.records.selection import Selection
from aerobee.spark.topics import TopicChoice

_WORDS = {"earliest": EARLIEST, "latest": LATEST}
_CHOICES = ("subscribe", "subscribePattern", "assign")
_STREAMS_ONLY = ("maxOffsetsPerTrigger", "maxBytesPerTrigger")
_NETWORK_ONLY = ("group", *(name for name, _ in CONNECTING))
_BATCHES_ONLY = ("endingOffsets", "endingTimestamp", "pushFilters")
USERS_MESSAGES = Selection(choice=TopicChoice(system=False, retry=False))


class Use(Enum):
    """What the options are for; EITHER where it is not known yet."""

    BATCH = "read"
    STREAM = "readStream"
    EITHER = ""


@dataclass(frozen=True, slots=True)
class Options:
    """What a query asks for, checked.

    `path` is one text, which may name several stores, or a path for each. `starting`, `ending` and
    `assign` are kept as text: what they name can be judged only when the stores, and so the
    brokers' names, are known.
    """

    path: str | tuple[str, ...] = ""
    columns: tuple[str, ...] = USUAL
    properties: str = PROPERTIES[0]
    decompress: bool = False
    verify_crc: bool = False
    partition_bytes: int | None = None
    partitions_min: int | None = None
    fail_on_data_loss: bool = True
    push_filters: bool = False
    mode: str = FAILFAST
    starting: str = "earliest"
    ending: str = "latest"
    assign: str | None = None
    messages_per_trigger: int | None = None
    bytes_per_trigger: int | None = None
    network: NetworkAddress | None = None
    selection: Selection = USERS_MESSAGES

    def starting_offsets(self, brokers: Collection[str]) -> Offsets | int:
        """Where to start: an offset per queue, or one for all. Raises OptionError."""
        return _offsets("startingOffsets", self.starting, brokers)

    def ending_offsets(self, brokers: Collection[str]) -> Offsets | int:
        """Where to end; likewise."""
        return _offsets("endingOffsets", self.ending, brokers)

    def choice(self, brokers: Collection[str]) -> TopicChoice:
        """Which topics and queues to read. Raises OptionError."""
        if self.assign is None:
            return self.selection.choice
        return TopicChoice(queues=parse_assign(self.assign, brokers))


def option_texts(given: Mapping[str, str]) -> dict[str, str]:
    """The options of a query, or of a table, by their names in small letters."""
    return own_options(given, _PARSERS)


def parse_options(given: Mapping[str, str], use: Use = Use.BATCH) -> Options:
    """The options of a query; names are compared without regard to case, as Spark does.

    Raises OptionError, which names the option, what is allowed, and what may have been meant.
    """
    by_name = option_texts(given)
    for name in by_name:
        if name in _ELSEWHERE:
            raise OptionError(f"option {name} is called {_ELSEWHERE[name]} where messages are read")
        if name not in _PARSERS:
            spelled = sorted(spelling for spelling, _ in _PARSERS.values())
            raise OptionError(f"unknown option {values.near(name, spelled)}")

    _check_use(by_name, use)

    def take(name: str, default: Any = None) -> Any:
        spelling, parse = _PARSERS[name.lower()]
        return parse(spelling, by_name[name.lower()]) if name.lower() in by_name else default

    network = _network(by_name, take)
    since, until = take("startingTimestamp"), take("endingTimestamp")
    if since is not None and until is not None and until <= since:
        raise OptionError(f"option endingTimestamp: {until} is not after startingTimestamp {since}")
    choice = _choice(by_name, take)
    mode = take("mode", FAILFAST)
    columns = take("columns", USUAL)
    if mode == PERMISSIVE and "columns" not in by_name:
        columns = (*USUAL, CORRUPT)
    check_mode(mode, columns)
    whence = "latest" if use is Use.STREAM and since is None else "earliest"
    starting, ending = take("startingOffsets", whence), take("endingOffsets", "latest")
    if starting == "latest" and use is Use.BATCH:
        raise OptionError(
            "option startingOffsets: 'latest' reads nothing, as a query ends where the store ends"
            " when it is planned; write earliest, or JSON"
        )
    if ending == "earliest":
        raise OptionError("option endingOffsets: 'earliest' reads nothing; write latest, or JSON")
    return Options(
        path=_path(by_name, take),
        columns=columns,
        properties=take("properties", "map"),
        decompress=take("decompress", False),
        verify_crc=take("verifyCrc", False),
        partition_bytes=take("partitionBytes"),
        partitions_min=take("minPartitions"),
        fail_on_data_loss=take("failOnDataLoss", True),
        push_filters=take("pushFilters", False),
        mode=mode,
        starting=starting,
        ending=ending,
        assign=take("assign"),
        messages_per_trigger=take("maxOffsetsPerTrigger"),
        bytes_per_trigger=take("maxBytesPerTrigger"),
        network=network,
        selection=Selection(since_ms=since, until_ms=until, choice=choice),
    )


def _path(given: Mapping[str, str], take: Callable[..., Any]) -> str | tuple[str, ...]:
    """The stores; Spark hands `load([...])` on as the option paths."""
    if "path" in given and "paths" in given:
        raise OptionError("options path and paths (a list given to load) exclude each other")
    found: str | tuple[str, ...] = take("paths") if "paths" in given else take("path", "")
    return found


def _choice(given: Mapping[str, str], take: Callable[..., Any]) -> TopicChoice:
    """Which topics are read, as far as it is known before the brokers are."""
    several = [name for name in _CHOICES if name.lower() in given]
    if len(several) > 1:
        raise OptionError(f"options {' and '.join(several)} exclude each other: name one of them")
    assigned = "assign" in given  # queues that are named are read whatever their topic is
    return TopicChoice(
        names=take("subscribe"),
        pattern=take("subscribePattern"),
        system=take("includeSystemTopics", False) or assigned,
        retry=take("includeRetryTopics", False) or assigned,
    )


def _network(given: Mapping[str, str], take: Callable[..., Any]) -> NetworkAddress | None:
    """Which cluster is read over the network; None where stores are read."""
    stored = bool(_path(given, take))
    if "namesrv" not in given:
        if not stored:
            raise OptionError(
                "option path is missing: name the folder of a broker's store, or with the option"
                " namesrv the nameservers of a cluster to read over the network"
            )
        for name in _NETWORK_ONLY:
            if name.lower() in given:
                raise OptionError(f"option {name} goes with namesrv, not with path: leave it out")
        return None
    if stored:
        raise OptionError(
            "options path and namesrv exclude each other: path reads a broker's files, namesrv its"
            " messages over the network"
        )
    if take("mode", FAILFAST) != FAILFAST:
        raise OptionError(
            "option mode: with namesrv only FAILFAST; damage in a broker's log is told, or passed"
            " over, where its files are read (path)"
        )
    address = network_address(given, take)
    return replace(address, group=take("group", address.group))


def _check_use(given: Collection[str], use: Use) -> None:
    """Refuse options of a batch in a stream, and the other way round."""
    for others, names in ((Use.BATCH, _STREAMS_ONLY), (Use.STREAM, _BATCHES_ONLY)):
        for name in names:
            if use is others and name.lower() in given:
                there = Use.STREAM if use is Use.BATCH else Use.BATCH
                raise OptionError(
                    f"option {name} is one of spark.{there.value}, and means nothing to"
                    f" spark.{use.value}: leave it out"
                )


def check_mode(mode: str, columns: Collection[str]) -> None:
    """Refuse columns that do not go with the mode."""
    if mode == PERMISSIVE and CORRUPT not in columns:
        raise OptionError(
            f"option mode: PERMISSIVE tells damage in the column {CORRUPT}, which is not among the"
            " columns: name it, or use DROPMALFORMED"
        )
    if mode != PERMISSIVE and CORRUPT in columns:
        raise OptionError(f"column {CORRUPT} is there with the option mode=PERMISSIVE only")


def _offsets(option: str, text: str, brokers: Collection[str]) -> Offsets | int:
    if text in _WORDS:
        return _WORDS[text]
    return parse_offsets(text, brokers, f"option {option}")


def _offsets_text(option: str, value: str) -> str:
    if (word := value.strip().lower()) in _WORDS:
        return word
    if not value.strip().startswith("{"):
        values.choice("earliest", "latest", '{"topic": {"broker:queue": offset}}')(option, value)
    return value.strip()


# by what writers and other sources call it
_ELSEWHERE = {"topic": "subscribe", "topics": "subscribe", "topicpattern": "subscribePattern"}
_PARSERS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    spelling.lower(): (spelling, parse)
    for spelling, parse in (
        ("path", values.text),
        ("paths", values.paths),
        ("namesrv", values.nameservers),
        ("group", values.group),
        *CONNECTING,
        ("columns", values.columns),
        ("properties", values.choice(*PROPERTIES)),
        ("decompress", values.flag),
        ("verifyCrc", values.flag),
        ("partitionBytes", values.size),
        ("minPartitions", values.partitions),
        ("failOnDataLoss", values.flag),
        ("pushFilters", values.flag),
        ("mode", values.choice(FAILFAST, PERMISSIVE, DROPMALFORMED)),
        ("subscribe", values.topics),
        ("subscribePattern", values.pattern),
        ("assign", values.text),
        ("includeSystemTopics", values.flag),
        ("includeRetryTopics", values.flag),
        ("startingOffsets", _offsets_text),
        ("endingOffsets", _offsets_text),
        ("startingTimestamp", values.milliseconds),
        ("endingTimestamp", values.milliseconds),
        ("maxOffsetsPerTrigger", values.messages),
        ("maxBytesPerTrigger", values.trigger_bytes),
    )
}
