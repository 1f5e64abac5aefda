"""The settings in force: one frozen value, held in one place."""

from collections.abc import Callable
from typing import Any

from aerobee.broker.settings.keys import BrokerSettings


class Live:
    """What every part of a broker reads its settings from.

    Who reads `current` whenever it needs a value is always right. Who keeps a copy, or something
    made from one, registers with `on_change`; the callbacks run in the order of registration, so a
    part follows the parts that it was made from.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self.current = settings
        self._followers: list[Callable[[BrokerSettings], Any]] = []

    def on_change(self, apply: Callable[[BrokerSettings], Any]) -> None:
        """Have `apply` called with the new settings after each change."""
        self._followers.append(apply)

    def change(self, settings: BrokerSettings) -> None:
        """Put new settings in force; when it returns nobody goes by the old ones.

        A follower that raises keeps them from no other one; its error is raised when all are told.
        """
        self.current = settings
        failed = None
        for apply in self._followers:
            try:
                apply(settings)
            except Exception as error:  # noqa: BLE001  a broker of two minds would be worse
                failed = failed or error
        if failed is not None:
            raise failed
