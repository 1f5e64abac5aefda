"""Sessions and rations: bounded in time and number."""

from aerobee.console.door.rationing import CALLERS_MAX, Rations
from aerobee.console.door.sessions import IDLE_S, LIFE_S, LOCAL_MAX, SESSIONS_MAX, Sessions, Viewer
from aerobee.console.roles import ConsoleRole

ANN = Viewer("ann", ConsoleRole.READER)


def test_a_session_ends_idle_or_old() -> None:
    """Parts that a page fetches by itself keep none open."""
    now_s = 0.0
    sessions = Sessions(lambda: now_s)
    token = sessions.begin(ANN).token
    now_s = IDLE_S - 1
    assert sessions.find(token, is_click=False) is not None
    now_s = IDLE_S + 1
    assert sessions.find(token, is_click=True) is None
    token = sessions.begin(ANN).token
    for _ in range(int(LIFE_S / IDLE_S * 2) + 1):
        now_s += IDLE_S / 2
        found = sessions.find(token, is_click=True)
    assert found is None
    assert sessions.find("", is_click=True) is None


def test_the_session_that_was_idle_longest_makes_room() -> None:
    """Whoever comes in gets in, and memory is bounded."""
    sessions = Sessions(lambda: 0.0)
    tokens = [sessions.begin(ANN).token for _ in range(SESSIONS_MAX)]
    assert sessions.find(tokens[0], is_click=True)
    sessions.begin(ANN)
    assert len(sessions) == SESSIONS_MAX
    assert sessions.find(tokens[0], is_click=False) and not sessions.find(tokens[1], is_click=False)


def test_who_keeps_no_cookie_takes_no_session_of_others() -> None:
    """Whatever looks from this machine every second gets one with each look."""
    sessions = Sessions(lambda: 0.0)
    token = sessions.begin(ANN).token
    for _ in range(SESSIONS_MAX + 1):
        sessions.begin(Viewer("this machine", ConsoleRole.ADMIN, is_local=True))
    assert sessions.find(token, is_click=False) and len(sessions) <= LOCAL_MAX + 1


def test_rations_come_back_with_time_and_callers_are_bounded() -> None:
    """Each has his own."""
    now_s = 0.0
    rations = Rations(burst=2, per_s=0.5, clock_s=lambda: now_s)
    assert [rations.take("a") for _ in range(3)] == [0.0, 0.0, 2.0]
    assert rations.take("b") == 0.0
    now_s = 2.0
    assert rations.take("a") == 0.0 and rations.take("a") > 0
    for number in range(CALLERS_MAX + 5):
        rations.take(str(number))
    assert len(rations) == CALLERS_MAX


def test_who_has_gone_is_forgotten_without_coming_back() -> None:
    """His secret is in memory as long as his session, and no longer."""
    now_s = 0.0
    sessions = Sessions(lambda: now_s)
    sessions.begin(ANN)
    now_s = IDLE_S - 1
    kept = sessions.begin(ANN).token
    now_s = IDLE_S + 1
    sessions.sweep()
    assert len(sessions) == 1 and sessions.find(kept, is_click=False)
