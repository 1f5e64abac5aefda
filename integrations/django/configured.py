"""What the setting AEROBEE says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from aerobee.client import (
    ClientError,
    ClientSettings,
    Producer,
    ProducerSettings,
    PushSettings,
)

NAME: Final = "AEROBEE"
_PARTS: Final = {"CLIENT": ClientSettings, "CONSUMER": PushSettings, "PRODUCER": ProducerSettings}
_TEXTS: Final = ("NAMESRV", "PRODUCER_GROUP")


@dataclass(frozen=True, slots=True)
class Configured:
    """The settings, checked."""

    namesrv: str | None = None
    producer_group: str = "DEFAULT_PRODUCER"
    client: ClientSettings = field(default_factory=ClientSettings)
    consumer: PushSettings = field(default_factory=PushSettings)
    producer: ProducerSettings = field(default_factory=ProducerSettings)


def configured() -> Configured:
    """Return what AEROBEE says; raises ImproperlyConfigured for the first thing that is wrong.

    Keys are NAMESRV ("host:port;host:port", else the environment's NAMESRV_ADDR), PRODUCER_GROUP,
    and CLIENT, CONSUMER and PRODUCER: dicts with fields of ClientSettings, PushSettings and
    ProducerSettings.
    """
    found, wrong = read(getattr(settings, NAME, {}))
    if wrong:
        raise ImproperlyConfigured(wrong[0])
    return found


def read(given: Any) -> tuple[Configured, list[str]]:
    """Return the settings, and what is wrong with them."""
    if not isinstance(given, Mapping):
        return Configured(), [f"{NAME} must be a dict, is {given!r:.80}"]
    known, wrong = (*_TEXTS, *_PARTS), []
    values: dict[str, Any] = {}
    for key, value in given.items():
        where = f"{NAME}[{key!r}]"
        if key not in known:
            wrong.append(f"{where} is no setting: there are {', '.join(sorted(known))}")
        elif key in _TEXTS:
            if isinstance(value, str):
                values[key.lower()] = value
            else:
                wrong.append(f"{where} must be a text, is {value!r:.80}")
        elif not isinstance(value, Mapping):
            wrong.append(f"{where} must be a dict, is {value!r:.80}")
        else:
            try:
                values[key.lower()] = _PARTS[key](**value)
            except (TypeError, ValueError, ClientError) as error:
                wrong.append(f"{where}: {str(error).removeprefix(_PARTS[key].__name__)}")
    found = Configured(**values)
    try:  # names and addresses are looked at there; nothing is started
        Producer(found.producer_group, namesrv=found.namesrv or "127.0.0.1:9876")
    except ClientError as error:
        wrong.append(f"{NAME}: {error}")
    return found, wrong
