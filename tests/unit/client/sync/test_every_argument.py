"""Each parameter of each public call, with what it cannot be: refused at the call, by name."""

import asyncio
import inspect
import math
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import pytest
from support.stand_ins.fake_cluster import FakeCluster

import aerobee.client
import aerobee.client.sync
from aerobee.client import (
    ClientError,
    LitePullConsumer,
    Message,
    MessageQueue,
    PushConsumer,
    ReceivedMessage,
    TransactionListener,
)
from aerobee.remoting.codes import RequestCode

QUEUE: Final = MessageQueue("t", "broker-a", 0)

REQUEST: Final = ReceivedMessage(
    queue=QUEUE, queue_offset=0, body=b"x", flag=0, sys_flag=0, body_bytes=1, reconsume_times=0,
    raw_properties=b"CORRELATION_ID\x01c\x02REPLY_TO_CLIENT\x01r\x02CLUSTER\x01C\x02",
    born_timestamp_ms=0, store_timestamp_ms=0, raw_born_host=b"", raw_store_host=b"",
    position=0,
)  # fmt: skip
NO_NUMBERS: Final = (math.nan, math.inf, 1.5, True, "9", b"9", [1])
TIMES: Final = (0, -1, 2**31, *NO_NUMBERS)  # and counts
WAITS: Final = (-1, 2**31, *NO_NUMBERS)  # 0 waits for nothing
OFFSETS: Final = (-1, 2**63, *NO_NUMBERS)
TEXTS: Final = (7, b"t", True, ["t"])
NAMES: Final = ("", "a.b", "a b", "n" * 256, *TEXTS)
OTHERS: Final = (7, "x", object())
WRONG: Final[dict[str, tuple[Any, ...]]] = {
    "batch": (0, -1, 1_025, *NO_NUMBERS),
    "begin_ms": OFFSETS,
    "body": ("x", None, 7, ["x"]),
    "callback": OTHERS,
    "client": (*OTHERS, {}),
    "consume_from": (*OTHERS, None, "earliest"),
    "consume_timestamp_ms": OFFSETS,
    "delay": (5, "5", -timedelta(seconds=1)),
    "deliver_at": (5, "now", datetime(2030, 1, 1)),
    "group": (*NAMES, None),
    "handler": (*OTHERS, None, lambda: None),
    "hooks": (*OTHERS, [7], [print]),
    "key": (1.5, b"k", True, ["k"]),
    "keys": (7, [7]),
    "listener": (*OTHERS, None),
    "message": (*OTHERS, None, b"x", Message("a.b", b"x"), Message("t")),
    "message_id": (*TEXTS, "", "a b"),
    "messages": (7, None, Message("t", b"x"), "x", [7]),
    "messages_max": TIMES,
    "model": (*OTHERS, None, "BROADCASTING"),
    "namesrv": (7, [7], "x", "ftp://a:1"),
    "offset": OFFSETS,
    "offsets": (*OTHERS, [QUEUE], {7: 7}, *({QUEUE: value} for value in OFFSETS)),
    "ordered": ("no", 1, None),
    "properties": (7, {"n": 1}, {1: "n"}),
    "queue": (*OTHERS, ("t", "broker-a", 0)),
    "queues": (*OTHERS, QUEUE, [7], None),
    "refusal": TEXTS,
    "request": (*OTHERS, None, Message("t", b"x")),
    "selector": OTHERS,
    "sent": (7, None, "", "no handle", b"x"),
    "settings": (*OTHERS, {}),
    "since": (5, "now", datetime(2030, 1, 1)),
    "sql": ("", " ", *TEXTS),
    "strategy": OTHERS,
    "tags": (*TEXTS, "||"),
    "timeout_ms": TIMES,
    "timestamp_ms": OFFSETS,
    "topic": (*NAMES, None),
    "topics": (7, "t", [7], ["a.b"]),
    "trace_topic": NAMES,
    "until": (5, "now", datetime(2030, 1, 1)),
    "work": (*OTHERS, None),
}
"""What each parameter cannot be; one that is new has to be added, and is refused, too."""
ANYTHING: Final = {"argument", "block", "clients"}
"""Parameters that take whatever they get, or whatever is true."""
ALSO: Final[dict[tuple[str, str], tuple[Any, ...]]] = {
    (call, "timeout_ms"): WAITS for call in ("poll", "room", "flush", "result", "exception")
} | {
    ("put_back", "messages"): (7, None, "x"),
    ("reply", "tags"): TEXTS,
    ("reply_to", "tags"): (),  # a send of it refuses them
    ("reply_to", "keys"): (),
    ("reply_to", "properties"): (7, "x"),
    ("unsubscribe", "topic"): (),  # what is not subscribed is no error
}
"""Where a parameter of the same name can be something else."""
SAID: Final = {
    "handler": "handler",
    "hooks": "hook",
    "sent": "recall",
    "properties": "propert",
    "messages": "messages|message|body|topic",
    "message": "message|topic|body",
    "namesrv": "namesrv|address",
    "request": "request",
    "queues": "queues",
    "topics": "topic",
    "trace_topic": "topic",
    "sql": "sql|SQL92",
    "delay": "delay",
    "offsets": "offset",
    "message_id": "message_id|an id|key",
    "key": "key",
    "group": "group",
    "topic": "topic",
    "tags": "tags|names no tag",
}
"""How errors call what is wrong, where that is not the parameter's name."""
NEEDS: Final[dict[str, Any]] = {
    "body": b"x",
    "callback": print,
    "group": "g",
    "handler": lambda message: None,
    "message": Message("t", b"x"),
    "message_id": "id",
    "messages": [Message("t", b"x")],
    "namesrv": "127.0.0.1:1",
    "offset": 0,
    "queue": QUEUE,
    "queues": [QUEUE],
    "request": REQUEST,
    "sent": "handle",
    "timestamp_ms": 0,
    "topic": "t",
    "work": print,
}
"""What else a call has to be given."""
KINDS: Final = (
    "Producer",
    "TransactionProducer",
    "RequestProducer",
    "PushConsumer",
    "LitePullConsumer",
    "PullConsumer",
)


class AsyncListener(TransactionListener):
    """Never asked."""

    async def check(self, message: Any) -> Any:
        """Do nothing."""


class PlainListener(aerobee.client.sync.TransactionListener):
    """Never asked."""

    def check(self, message: Any) -> Any:
        """Do nothing."""


def parameters(call: Callable[..., Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give each parameter of a call, with what the others need."""
    signature = inspect.signature(call).parameters.values()
    needed = {
        each.name: NEEDS.get(each.name)
        for each in signature
        if each.default is each.empty and each.name not in ANYTHING
    }
    for each in signature:
        if each.name not in ANYTHING:
            yield each.name, {key: value for key, value in needed.items() if key != each.name}


def wrong_calls(name: str, call: Callable[..., Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Give what a call is to refuse: how it is told, what the error names, and the arguments."""
    for parameter, others in parameters(call):
        for value in ALSO.get((name, parameter), WRONG[parameter]):
            if name == "find" and parameter != "message_id":
                others = {**others, "key": others.get("key", "k")}
                if parameter == "key":
                    del others["key"]
            said = f"{name}({parameter}={value!r:.40})"
            yield said, SAID.get(parameter, parameter), {**others, parameter: value}


def client_of(module: Any, kind: str, namesrv: str) -> Any:
    """Make a client that does not write to the real world."""
    more: dict[str, Any] = {}
    if kind == "TransactionProducer":
        more["listener"] = AsyncListener() if module is aerobee.client else PlainListener()
    return getattr(module, kind)("g", namesrv=namesrv, **more)


def public_calls(client: Any) -> Iterator[str]:
    """Name the public methods that take something."""
    for name, member in inspect.getmembers(type(client), inspect.isfunction):
        within = {"consume_directly", "reset_offsets", "check", "begin_close", "tell_closed"} | {
            "is_deciding"
        }
        if not name.startswith("_") and name not in within and inspect.signature(member).parameters:
            yield name


Calls = Iterator[tuple[str, str, Callable[[], Any]]]


def calls_of(client: Any) -> Calls:
    """Give what the public methods of a started client are to refuse."""
    for name in public_calls(client):
        method = getattr(client, name)
        for told, said, arguments in wrong_calls(name, method):
            yield told, said, partial(method, **arguments)


def fault(told: str, said: str, error: BaseException | None) -> list[str]:
    """Say what is wrong with the way in which a call was refused."""
    if error is None:
        return [f"{told} was taken"]
    if not isinstance(error, ClientError):
        return [f"{told} raised {error!r}"]
    if not any(word in str(error) for word in said.split("|")):
        return [f"{told} said {type(error).__name__}: {error}"]
    return []


async def faults(calls: Calls) -> str:
    """Make each of the calls; return what was not refused as it should be."""
    found: list[str] = []
    for told, said, call in calls:
        refusal: BaseException | None = None
        try:
            async with asyncio.timeout(5):
                outcome = call()
                if hasattr(outcome, "__aenter__"):
                    await outcome.__aenter__()
                elif inspect.isawaitable(outcome):
                    await outcome
        except Exception as error:  # noqa: BLE001 - told below
            refusal = error
        found += fault(told, said, refusal)
    return "\n".join(found)


def plain_faults(calls: Calls) -> str:
    """Make calls that wait, where no loop runs."""
    found: list[str] = []
    for told, said, call in calls:
        refusal: BaseException | None = None
        try:
            outcome = call()
            if hasattr(outcome, "__enter__"):
                outcome.__enter__()
        except Exception as error:  # noqa: BLE001 - told below
            refusal = error
        found += fault(told, said, refusal)
    return "\n".join(found)


@pytest.mark.parametrize("kind", KINDS)
async def test_methods_refuse_what_cannot_be(cluster: FakeCluster, kind: str) -> None:
    """Of the clients that are awaited; nothing is sent meanwhile."""
    cluster.create("t", 1)
    client = client_of(aerobee.client, kind, cluster.namesrv)
    if isinstance(client, PushConsumer):
        client.subscribe("t", print)
    async with client:
        if isinstance(client, LitePullConsumer):
            await client.assign([QUEUE])
        assert not (told := await faults(calls_of(client))), told
    sends = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
    assert not any(broker.requests(code) for broker in cluster.brokers for code in sends)


@pytest.mark.parametrize("kind", KINDS)
async def test_methods_that_wait_refuse_the_same(cluster: FakeCluster, kind: str) -> None:
    """Of the clients without `await`."""
    cluster.create("t", 1)
    client = client_of(aerobee.client.sync, kind, cluster.namesrv)
    if isinstance(client, aerobee.client.sync.PushConsumer):
        client.subscribe("t", print)

    def walk() -> str:
        with client:
            if isinstance(client, aerobee.client.sync.LitePullConsumer):
                client.assign([QUEUE])
            return plain_faults(calls_of(client))

    assert not (told := await asyncio.to_thread(walk)), told


@pytest.mark.parametrize("module", [aerobee.client, aerobee.client.sync], ids=["await", "wait"])
async def test_clients_and_functions_refuse_what_cannot_be(module: Any) -> None:
    """What is made without a cluster, and the functions beside the clients."""
    listener = AsyncListener() if module is aerobee.client else PlainListener()

    def calls() -> Calls:
        for name in (*KINDS, "read_traces", "reply_to"):
            made = getattr(module, name)
            for told, said, arguments in wrong_calls(name, made):
                if said != "listener" and "listener" in arguments:
                    arguments["listener"] = listener
                if name in KINDS and said != SAID["namesrv"]:
                    arguments["namesrv"] = NEEDS["namesrv"]
                yield told, said, partial(made, **arguments)

    told = await (
        faults(calls()) if module is aerobee.client else asyncio.to_thread(plain_faults, calls())
    )
    assert not told, told
