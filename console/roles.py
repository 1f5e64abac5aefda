"""What a viewer of the console may do."""

from enum import IntEnum
from typing import Final


class ConsoleRole(IntEnum):
    """A viewer's rights, each with those of the ones below it.

    A role says what the console offers; what brokers allow is decided by their own policies, as
    each change is signed with the viewer's own secret.
    """

    READER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """The role as settings and pages write it: "reader"."""
        return self.name.lower()


BY_WORD: Final = {role.word: role for role in ConsoleRole}
