"""Which features there are, what switches each on, and those that one broker has."""

import asyncio
import importlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from aerobee.broker.features.feature import Feature, Parts, Placer
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.remoting.net.routes import Routes

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Feature)


@dataclass(frozen=True, slots=True)
class Listed:
    """A feature by the name of its module, which has `make(parts)`, and whether it is wanted."""

    module: str
    wanted: Callable[[BrokerSettings], bool]


FEATURES: Final = (
    Listed("aerobee.broker.delays.feature", lambda settings: settings.delays_messages),
    Listed("aerobee.broker.sql92.feature", lambda settings: settings.enable_property_filter),
)


class Features:
    """The features of one broker, in the order of the list.

    One that settings do not want is not imported. Where its key works at once, one that comes to be
    wanted is added to a running broker, but for requests and places, which are those of the start;
    one that is wanted no more rests until the next start.
    """

    def __init__(self) -> None:
        self._made: dict[str, Feature] = {}
        self._parts: Parts

    async def load(self, settings: BrokerSettings) -> None:
        """Import those that are wanted, in a thread: some take a tenth of a second."""
        for listed in self._missing(settings):
            await asyncio.to_thread(importlib.import_module, listed.module)

    def make(self, parts: Parts) -> None:
        """Make those that are wanted, and follow the settings."""
        self._parts = parts
        for listed in self._missing(parts.live.current):
            self._make(listed)
        parts.live.on_change(self._apply)

    def __iter__(self) -> Iterator[Feature]:
        """Yield those that there are."""
        return iter(list(self._made.values()))

    @property
    def placers(self) -> list[Placer]:
        """Return those who may store messages elsewhere."""
        return [each.placer for each in self if each.placer is not None]

    @property
    def routes(self) -> list[Routes[Any]]:
        """Return the requests that they answer."""
        return [each.routes for each in self if each.routes is not None]

    def find(self, kind: type[F]) -> F | None:
        """Return the feature of a class, None where it is switched off."""
        return next((feature for feature in self if isinstance(feature, kind)), None)

    def start(self) -> None:
        """Start them all."""
        for feature in self:
            feature.start()

    def stop(self) -> None:
        """Stop them all."""
        for feature in self:
            feature.stop()

    def close(self) -> OSError | None:
        """Close them all; return an error of one that could not save what it keeps."""
        unsaved = None
        for feature in self:
            unsaved = feature.close() or unsaved
        return unsaved

    def _missing(self, settings: BrokerSettings) -> list[Listed]:
        return [
            listed
            for listed in FEATURES
            if listed.module not in self._made and listed.wanted(settings)
        ]

    def _make(self, listed: Listed) -> Feature:
        made: Feature = importlib.import_module(listed.module).make(self._parts)
        self._made[listed.module] = made
        return made

    def _apply(self, settings: BrokerSettings) -> None:
        for listed in self._missing(settings):
            self._make(listed).start()
            log.info("feature_switched_on name=%s", listed.module.split(".")[-2])
