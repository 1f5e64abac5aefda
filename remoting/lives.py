"""The life of a thing as a table: its states, the moves between them, and when each happens."""

import enum
from typing import Final, Generic, NamedTuple, TypeVar

S = TypeVar("S", bound=enum.Enum)


class Move(NamedTuple, Generic[S]):
    """What `name`, a method of the thing, does in a state, and when that happens."""

    before: S
    name: str
    after: S
    when: str


class Life(Generic[S]):
    """All moves of one kind of thing, which alone makes them.

    `what` names it in the error that a move gets which the table does not know: a mistake in this
    program, never something that came from outside.
    """

    def __init__(self, what: str, *moves: Move[S]) -> None:
        self.moves: Final = moves
        self._what = what
        self._after: Final = {(move.before, move.name): move.after for move in moves}

    def after(self, state: S, name: str) -> S:
        """Return the state to which a move leads."""
        after = self._after.get((state, name))
        if after is None:
            raise RuntimeError(
                f"{name} of a {self._what} that is {state.name}: there is no such move"
            )
        return after
