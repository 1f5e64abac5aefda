"""Two brokers of one name: told when one takes the other's place, and not each time they do."""

from collections.abc import Callable


class Takeovers:
    """Who took whose place; bounded by the names that are registered. `warn` logs."""

    def __init__(self, warn: Callable[..., None]) -> None:
        self._warn = warn
        self._told: dict[tuple[str, int], frozenset[str]] = {}  # (name, id) to the two addresses

    def took_place(
        self, name: str, broker_id: int, was_at: str, now_at: str, silent_ms: int
    ) -> None:
        """Tell that a broker has registered in the place of one whose connection still stands.

        Both register again and again, so a pair is told once, until its name is forgotten.
        """
        pair = frozenset((was_at, now_at))
        if self._told.get((name, broker_id)) == pair:
            return
        self._told[name, broker_id] = pair
        self._warn(
            "broker_twin name=%s id=%d was_at=%s now_at=%s: the one that was there is still"
            " connected, heard %.1f s ago; clients find the last that registered",
            name,
            broker_id,
            was_at,
            now_at,
            silent_ms / 1000,
        )

    def forget(self, name: str) -> None:
        """Forget a name that nobody has any more."""
        for key in [key for key in self._told if key[0] == name]:
            del self._told[key]
