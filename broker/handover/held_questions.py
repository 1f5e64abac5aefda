"""Questions for a group's members (38) that wait until some of them have finished."""

from collections.abc import Callable
from typing import Final

import msgspec

from aerobee.broker.handover.drain import Key
from aerobee.broker.handover.owned_queue import Later, Timer

HELD_MS: Final = 500  # clients ask for the members in the thread that serves all their groups
HELD_MAX: Final = 10_000  # questions for the members of one group, of all who ask

Answer = Callable[[bool], None]
"""Tells who asks for the members: they are as they are (true), or ask again later (false)."""


class Held(msgspec.Struct, eq=False):
    """A question for the members that waits, until `timer` ends its wait."""

    answer: Answer
    timer: Timer | None = None


class HeldQuestions:
    """Questions by what they wait for, each for HELD_MS at most."""

    def __init__(self, later: Later) -> None:
        self._later = later
        self._held: dict[Key, dict[Held, None]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, key: Key, answer: Answer) -> bool:
        """Let a question wait; False where too many do."""
        held = self._held.setdefault(key, {})
        if len(held) >= HELD_MAX:
            return False
        question = Held(answer)
        question.timer = self._later(HELD_MS / 1000, lambda: self._not_yet(key, question))
        held[question] = None
        return True

    def answer_all(self, key: Key) -> None:
        """The members have finished that somebody waits for."""
        held = self._held.get(key, {})
        while held:  # where an answer raises, the others keep their time
            question = next(iter(held))
            self._forget(key, question)
            if question.timer is not None:
                question.timer.cancel()
            question.answer(True)

    def _not_yet(self, key: Key, question: Held) -> None:
        self._forget(key, question)
        question.answer(key[1] is not None)  # who finishes alone hears of nothing when it has

    def _forget(self, key: Key, question: Held) -> None:
        held = self._held[key]
        del held[question]
        if not held:
            del self._held[key]
