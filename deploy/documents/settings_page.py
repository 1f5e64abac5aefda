"""Every setting of a server: its key, default, what it may be, and when a change works."""

from collections.abc import Callable, Iterable
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.console.settings import ConsoleSettings
from aerobee.namesrv.settings import CHANGEABLE, NamesrvSettings
from aerobee.remoting.config.settings import ServerSettings, Trait
from deploy.documents.setting_comments import comments
from deploy.documents.tables import code, table

HEAD: Final = ("key", "default", "may be", "a change works", "")
COMPUTED: Final = {"brokerIP1": "this machine's address"}
"""Defaults that are another value on each machine."""


def broker_settings() -> str:
    """Return the tables of the broker's settings, and the keys that keep it from starting."""

    def works(name: str) -> str:
        traits = BrokerSettings.model_fields[name].metadata
        when = "after a restart" if Trait.AT_START in traits else "at once"
        return f"{when}, guarded" if Trait.GUARDED in traits else when

    return f"{_tables(BrokerSettings, works)}\n\n{_promises(BrokerSettings)}"


def namesrv_settings() -> str:
    """Return the tables of the nameserver's settings."""
    keys = NamesrvSettings.keys()

    def works(name: str) -> str:
        return "at once" if keys[name] in CHANGEABLE else "after a restart"

    return f"{_tables(NamesrvSettings, works)}\n\n{_promises(NamesrvSettings)}"


def console_settings() -> str:
    """Return the tables of the settings of `aerobee console`."""
    return _tables(ConsoleSettings, lambda _: "after a restart")


def _tables(settings: type[ServerSettings], works: Callable[[str], str]) -> str:
    parts = []
    for heading, names in _sections(settings).items():
        rows = (_row(settings, name, works(name)) for name in names)
        parts.append(f"## {heading}\n\n{table(HEAD, rows)}")
    return "\n\n".join(parts)


def _sections(settings: type[ServerSettings]) -> dict[str, list[str]]:
    """Return the fields by the headings under which the source has them, own ones first."""
    sections: dict[str, list[str]] = {}
    for declared in settings.__mro__:
        if not issubclass(declared, ServerSettings):
            continue
        said = comments(declared)
        for name in declared.__annotations__:
            if name in settings.model_fields and name in said:
                heading = said[name].heading or _title(declared, settings)
                if all(name not in names for names in sections.values()):
                    sections.setdefault(heading, []).append(name)
    return sections


def _title(declared: type[Any], settings: type[Any]) -> str:
    """Return what keys without a heading are about: the first words of their module."""
    if declared is settings:
        return "Of its own"
    words = declared.__name__.removesuffix("Keys").removesuffix("Settings")
    spaced = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in words)
    return _TITLES.get(declared.__name__, spaced.strip().capitalize())


_TITLES: Final = {
    "NetSettings": "Network and TLS",
    "CallingSettings": "Calls to others",
    "AccessKeys": "Access control",
    "BrokerAccessKeys": "Access control of a broker",
    "LightQueueKeys": "Light queues",
    "TransactionKeys": "Transactions",
    "RetentionKeys": "Retention",
    "IndexKeys": "Index of keys",
    "ReplyKeys": "Replies to requests",
    "Sql92Keys": "SQL92",
    "DedupKeys": "Retries stored once",
    "DelayKeys": "Delay levels",
    "TimerKeys": "Messages at a time",
}


def _row(settings: type[ServerSettings], name: str, works: str) -> tuple[str, ...]:
    said = next(
        (found[name].text for each in settings.__mro__ if issubclass(each, ServerSettings)
         if name in (found := comments(each))), "",
    )  # fmt: skip
    key = settings.keys()[name]
    return code(key), _default(settings, name, key), _allowed(settings, name), works, said


def _default(settings: type[ServerSettings], name: str, key: str) -> str:
    if key in COMPUTED:
        return COMPUTED[key]
    value = settings.model_fields[name].get_default(call_default_factory=True)
    if isinstance(value, Path):
        home = Path.home()
        value = Path("~") / value.relative_to(home) if value.is_relative_to(home) else value
    if value is None or value == "":
        return "none"
    return code(str(value).lower() if isinstance(value, bool) else value)


def _allowed(settings: type[ServerSettings], name: str) -> str:
    info = settings.model_fields[name]
    kinds = [kind for kind in _kinds(info.annotation) if kind is not NoneType]
    words = [code(each) for kind in kinds if get_origin(kind) is Literal for each in get_args(kind)]
    if words:
        return ", ".join(words)
    if bool in kinds:
        return "`true`, `false`"
    least = _limit(info.metadata, "ge", "gt")
    most = _limit(info.metadata, "le", "lt")
    if int in kinds or float in kinds:
        whole = "number" if float in kinds else "whole number"
        if least and most:
            return f"{least} to {most}"
        return f"{whole} from {least} on" if least else f"{whole} up to {most}" if most else whole
    return "path" if Path in kinds else "text"


def _kinds(annotation: Any) -> Iterable[Any]:
    """Yield the types that a field's annotation is made of."""
    if get_origin(annotation) is Literal or not get_args(annotation):
        yield annotation
        return
    for part in get_args(annotation):
        if isinstance(part, type) or get_args(part):
            yield from _kinds(part)


def _limit(metadata: Iterable[Any], inclusive: str, exclusive: str) -> str:
    for mark in metadata:
        if (limit := getattr(mark, inclusive, None)) is not None:
            return f"{limit:,}"
        if (limit := getattr(mark, exclusive, None)) is not None:
            return f"{limit + 1:,}" if exclusive == "gt" else f"{limit - 1:,}"
    return ""


def _promises(settings: type[ServerSettings]) -> str:
    rows = (
        (code(key), promise.missing, promise.remedy)
        for key, promise in sorted(settings.promises.items())
    )
    listed = table(("key of RocketMQ", "why it is refused", "what to do"), rows)
    return f"## What keeps it from starting\n\n{listed}"
