"""Who asks, and whether he may: the two questions before a request is served.

RocketMQ asks them in this order, and answers both with 16 (NO_PERMISSION).
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import RequestError
from aerobee.remoting.net.access.book import AccessBook
from aerobee.remoting.net.access.guesses import Guesses
from aerobee.remoting.net.access.policies import Decision, Need, address
from aerobee.remoting.net.access.rules import Rules
from aerobee.remoting.net.access.signature import ACCESS_KEY, is_signed
from aerobee.remoting.net.access.users import NAME_CHARS_MAX, USER, User, UserStatus
from aerobee.remoting.net.connection import Connection

log = logging.getLogger(__name__)

DECISIONS_MAX: Final = 100_000
"""Kept between changes; a client that asks for ever new things has the memory of this many."""

WRONG: Final = "check signature failed."
BOOK_CODES: Final = frozenset(range(RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_LIST_ACL + 1))
_UNEXPECTED: Final = "Authorization failed. Please verify your access rights and try again."
_NOBODY: Final = User("", "nobody has this secret")
"""Whose secret a signature of an unknown user is compared with: it takes as long as any other."""

Needs = Callable[[Command], Iterable[Need]]
"""What a request must be allowed."""


class Refusal(RequestError):
    """A request that is refused, and for how long its answer is to wait, in seconds."""

    def __init__(self, remark: str, delay_s: float = 0.0) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, remark)
        self.delay_s = delay_s


class Guard:
    """Lets a request pass, or raises Refusal; `needs` says what a request must be allowed.

    Every signature it is given is looked at. What policies say to a need is asked once, until
    users or policies change.
    """

    def __init__(self, book: AccessBook, rules: Rules, needs: Needs) -> None:
        self.book = book
        self.rules = rules
        self.guesses = Guesses()
        self.refused = 0
        self._needs = needs
        self._decisions: dict[tuple[str, Need, str], Decision | None] = {}
        book.on_change.append(self._decisions.clear)

    def check(self, host: str, command: Command, identity: str = "") -> str:
        """Ask both questions of a request from an address; return the user who asks.

        That is "" where nobody was asked. `identity` is whose certificate its peer has shown: it
        stands for the signature of a request that has none. A body that cannot be read raises
        RequestError.
        """
        name = command.ext.get(ACCESS_KEY) or identity
        try:
            known = self.rules.authenticates and command.code not in self.rules.open_codes
            if known:
                self._authenticate(name, host, command)
            if self.rules.authorizes and command.code not in self.rules.free_codes:
                self.allow(name, host, self._needs(command))
        except Refusal as error:
            if self.passes(name, host, command.code):
                return ""
            self.refused += 1
            self.guesses.tell(log, host, command.code, error.remark)
            raise
        return name if known else ""

    def passes(self, name: str, host: str, code: int) -> bool:
        """Whether a request passes for its address, be it signed or not.

        None that changes or tells of users does: a white list is no right to make oneself a user.
        What is listed of a user counts while he is not disabled.
        """
        if code in BOOK_CODES:
            return False
        user = self.book.users.get(name)
        disabled = user is not None and user.status is UserStatus.DISABLE
        return self.book.white.has("" if disabled else name, host)

    def allow(self, name: str, host: str, needs: Iterable[Need]) -> None:
        """Return where a user may do all of this from an address; raises Refusal."""
        if not name:
            raise Refusal(_UNEXPECTED)
        user = self.book.users.get(name)
        if user is None or user.status is UserStatus.DISABLE:
            raise _unknown(name, user)
        if user.is_super:
            return
        for need in needs:
            decision = self._decision(name, need, host)
            if decision is not Decision.ALLOW:
                why = "no matched policies." if decision is None else "the decision is deny."
                raise Refusal(
                    f"{USER}{name} has no permission to access {_shown(str(need.resource))}"
                    f" from {host}, {why}"
                )

    def has_right(self, connection: Connection, command: Command) -> bool:
        """Whether a request that has passed was asked both who sends it and whether he may.

        Only then it needs no other proof, like the address that it comes from; a super user's is
        asked the first question alone.
        """
        rules, code = self.rules, command.code
        name, proven = self.who(connection, command)
        if not proven:
            return False
        asked = rules.authorizes and code not in rules.free_codes
        return asked or self.is_super(name)

    def who(self, connection: Connection, command: Command) -> tuple[str, bool]:
        """Return whom a request that has passed is from, and whether he has proved it."""
        name, code = name_of(connection, command), command.code
        host = connection.remote_host[0]
        unasked = code in self.rules.open_codes or self.passes(name, host, code)
        return name, self.rules.authenticates and bool(name) and not unasked

    def is_super(self, name: str) -> bool:
        """Whether a user, who has signed, may do all."""
        user = self.book.users.get(name)
        return user is not None and user.is_super

    def _authenticate(self, name: str, host: str, command: Command) -> None:
        if not name:
            raise Refusal("username cannot be null.")
        user = self.book.users.get(name)
        if not command.ext.get(ACCESS_KEY):
            if user is None or user.status is UserStatus.DISABLE:
                raise _unknown(name, user)
            return
        secret = (user or _NOBODY).password.encode()
        if not is_signed(secret, command.ext, command.body, command.version) or user is None:
            raise Refusal(WRONG, self.guesses.failed(host))
        if user.status is UserStatus.DISABLE:
            raise Refusal(f"{USER}{name} is disabled.")

    def _decision(self, name: str, need: Need, host: str) -> Decision | None:
        key = name, need, host
        if key in self._decisions:
            return self._decisions[key]
        acl = self.book.acls.get(name)
        decision = acl.decision(need, address(host)) if acl is not None else None
        if len(need.resource.name) <= NAME_CHARS_MAX:
            if len(self._decisions) >= DECISIONS_MAX:
                self._decisions.clear()
            self._decisions[key] = decision
        return decision


def name_of(connection: Connection, command: Command) -> str:
    """Return whom a request says that it is from, or else whose certificate its peer has shown."""
    return command.ext.get(ACCESS_KEY) or connection.identity


def _unknown(name: str, user: User | None) -> Refusal:
    return Refusal(f"{USER}{_shown(name)} is {'not found.' if user is None else 'disabled.'}")


def _shown(text: str) -> str:
    """Return a name that a peer has sent as a remark has it."""
    return text if len(text) <= NAME_CHARS_MAX else f"{text[:NAME_CHARS_MAX]}..."
