"""Every request code: who serves it, with which fields, and why others are not served."""

import ast
import asyncio
import inspect
import re
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from aerobee.broker.processors import unserved as broker_unserved
from aerobee.broker.processors.families import FAMILIES, SERVED_BY_CONNECTION
from aerobee.namesrv import unserved as namesrv_unserved
from aerobee.namesrv.processors import FAMILIES as NAMESRV_FAMILIES
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.headers.pull import PullMessageReply, PullMessageRequest
from aerobee.remoting.headers.send import SendMessageReply
from aerobee.remoting.headers.typed import Header
from aerobee.remoting.net.routes import NoHeader
from aerobee.testing.cluster import EmbeddedCluster
from deploy.documents.tables import code, sentence, table

HEAD: Final = ("name", "code", "asks", "is told", "")
DEPTH_MAX: Final = 4
FOLLOWED: Final = ("aerobee.broker.", "aerobee.namesrv.")
EVERYTHING: Final = {
    "enable_lmq": True,
    "enable_multi_dispatch": True,
    "authentication_metadata_provider": "org.apache.rocketmq.auth.authentication.provider."
    "LocalAuthenticationMetadataProvider",
}
"""Settings of a broker that has all features that serve codes."""
SENDS: Final = frozenset(
    {RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
)
"""Answered when the log has the message, by what is put together then."""
PULLS: Final = (
    "Hand out messages of one queue from an offset on; wait for some where there are none."
)
_CODES: Final = re.compile(r"^[A-Z0-9_, ]+: ")
"""How a header says which codes have it."""
_NAMES: Final = {value: name for name, value in vars(RequestCode).items() if name.isupper()}

Served = tuple[type[Header], Callable[..., Any]]


@cache
def broker_table() -> dict[int, Served]:
    """Return what a broker that has every feature serves, but for pulls; it is started for that."""
    features = asyncio.run(_of_features())
    tables = (*(family.table for family in FAMILIES), *features)
    return {each: served for found in tables for each, served in found.items()}


async def _of_features() -> list[dict[int, Served]]:
    with tempfile.TemporaryDirectory() as folder:
        async with EmbeddedCluster(root=Path(folder), broker_settings=EVERYTHING) as cluster:
            rooms = cluster.brokers[0].rooms
            return [dict(room.answers.table) for room in rooms if room.answers is not None]


def served_codes() -> str:
    """Return the codes of broker and nameserver, and those that none of them serves."""
    broker = {number: _row(number, *served) for number, served in broker_table().items()}
    for number in SERVED_BY_CONNECTION:
        broker[number] = _line(number, PullMessageRequest, [PullMessageReply], PULLS)
    tables = [family.table for family in NAMESRV_FAMILIES]
    namesrv = {each: _row(each, *served) for found in tables for each, served in found.items()}
    return "\n\n".join(
        (
            "## The broker",
            table(HEAD, (broker[number] for number in sorted(broker))),
            "## The nameserver",
            table(HEAD, (namesrv[number] for number in sorted(namesrv))),
            "## Not served by the broker",
            _unserved(broker_unserved.UNSERVED, set(broker)),
            "## Not served by the nameserver",
            _unserved(namesrv_unserved.UNSERVED, set(namesrv)),
        )
    )


def _unserved(reasons: dict[int, str], served: set[int]) -> str:
    rows = (
        (code(_NAMES.get(number, "")), code(number), reason)
        for number, reason in sorted(reasons.items())
        if number not in served
    )
    return table(("name", "code", "why"), rows)


def _row(number: int, header: type[Header], serve: Callable[..., Any]) -> tuple[str, ...]:
    answers = [each for each in _answers(serve) if each is not header]
    if number in SENDS:
        answers = [SendMessageReply]
    said = sentence(inspect.getdoc(serve))
    if not said and header is not NoHeader:
        said = _CODES.sub("", sentence(header.__doc__))
    return _line(number, header, answers, said)


def _line(
    number: int, header: type[Header], answers: list[type[Header]], said: str
) -> tuple[str, ...]:
    told = "<br>or ".join(filter(None, (_fields(each) for each in answers)))
    return code(_NAMES.get(number, "")), code(number), _fields(header), told, said


def _fields(header: type[Header]) -> str:
    """Name a header's fields as the wire has them; those that may be missing end with `?`."""
    return ", ".join(
        code(field.encode_name + ("" if field.required else "?"))
        for field in msgspec.structs.fields(header)
    )


def _answers(serve: Callable[..., Any]) -> list[type[Header]]:
    """Return the headers that a function, or one that it calls, may answer with."""
    found: dict[type[Header], None] = {}
    for name, value in _used(serve, DEPTH_MAX, set()):
        if isinstance(value, type) and issubclass(value, Header) and not name.endswith("Request"):
            found[value] = None
    found.pop(Header, None)
    found.pop(NoHeader, None)
    return list(found)


def _used(serve: Any, depth: int, seen: set[Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a function names, and what those do that it calls."""
    function = inspect.unwrap(getattr(serve, "__func__", serve))
    if depth == 0 or not inspect.isfunction(function) or function in seen:
        return
    seen.add(function)
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    owner = getattr(serve, "__self__", None)
    for node in (inner for statement in definition.body for inner in ast.walk(statement)):
        if isinstance(node, ast.Name):
            value = function.__globals__.get(node.id)
            yield node.id, value
            if inspect.isfunction(value) and value.__module__.startswith(FOLLOWED):
                yield from _used(value, depth - 1, seen)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
            yield from _used(getattr(owner, node.attr, None), depth - 1, seen)
