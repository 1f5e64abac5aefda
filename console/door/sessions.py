"""Who is logged in: sessions in memory, gone with the process."""

import secrets
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from aerobee.console.roles import ConsoleRole
from aerobee.remoting.net.access.credentials import SessionCredentials

IDLE_S: Final = 30 * 60.0
"""Without a click a session ends after this; fragments that a page fetches by itself are none."""
LIFE_S: Final = 12 * 3600.0
SESSIONS_MAX: Final = 1000
"""More than these, and the one that was idle longest ends."""
LOCAL_MAX: Final = 100
"""Of these are from this machine, where whatever keeps no cookie gets one with each request."""
TOKEN_BYTES: Final = 32


class Viewer(msgspec.Struct, frozen=True):
    """Somebody who looks at the console, and with which secret his requests are signed.

    `is_local` is who came from this machine and was asked nothing.
    """

    name: str
    role: ConsoleRole
    credentials: SessionCredentials | None = None
    is_local: bool = False


class Session(msgspec.Struct):
    """A viewer's visit: `token` is in his cookie, `csrf` in every form that he is given.

    `said` is what the next page tells him about what he has done; `plans` are changes that he was
    shown and has not decided on. `sent` is where what he has published is, by the form that
    it was sent with: "" while that is under way.
    """

    viewer: Viewer
    token: str
    csrf: str
    began_s: float
    used_s: float
    said: list[str] = []
    plans: dict[str, Any] = {}
    sent: dict[str, str] = {}

    def may(self, role: ConsoleRole) -> bool:
        """Whether the viewer has a role, or one above it."""
        return self.viewer.role >= role


class Sessions:
    """The sessions of one process."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._open: dict[str, Session] = {}  # the one that was used last is the last

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._open)

    def begin(self, viewer: Viewer) -> Session:
        """Let somebody in, with a token that nobody had before."""
        now_s = self._clock_s()
        if viewer.is_local:
            local = [token for token, each in self._open.items() if each.viewer.is_local]
            for token in local[: max(0, len(local) + 1 - LOCAL_MAX)]:
                del self._open[token]
        if len(self._open) >= SESSIONS_MAX:
            del self._open[next(iter(self._open))]
        token, csrf = secrets.token_urlsafe(TOKEN_BYTES), secrets.token_urlsafe(TOKEN_BYTES)
        session = Session(viewer, token, csrf, now_s, now_s)
        self._open[token] = session
        return session

    def find(self, token: str, *, is_click: bool) -> Session | None:
        """Return the session of a cookie, None where it has ended; a click keeps it open."""
        session = self._open.get(token)
        if session is None:
            return None
        if self._is_over(session):
            del self._open[token]
            return None
        if is_click:
            session.used_s = self._clock_s()
            self._open[token] = self._open.pop(token)
        return session

    def end(self, token: str) -> None:
        """Log somebody out; harmless when repeated."""
        self._open.pop(token, None)

    def sweep(self) -> None:
        """Forget those that have ended by time, with the secrets of their viewers."""
        for token in [token for token, each in self._open.items() if self._is_over(each)]:
            del self._open[token]

    def change(self, viewer: Viewer, now: Viewer | None) -> None:
        """Have a viewer's sessions go on as what he is now; None ends them."""
        for session in [each for each in self._open.values() if each.viewer == viewer]:
            if now is None:
                self.end(session.token)
            else:
                session.viewer = now

    def _is_over(self, session: Session) -> bool:
        now_s = self._clock_s()
        return now_s - session.used_s > IDLE_S or now_s - session.began_s > LIFE_S

    def viewers(self) -> set[Viewer]:
        """Return who has a session."""
        return {session.viewer for session in self._open.values()}
