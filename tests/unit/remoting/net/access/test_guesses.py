"""Wrong signatures of one address are answered slowly, and told of in a bounded number."""

import logging

import pytest

from aerobee.remoting.net.access import guesses
from aerobee.remoting.net.access.guesses import BURST, DELAY_S_MAX, PER_SECOND, Guesses


class Clock:
    """A clock that is set by hand."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_past_a_burst_answers_leave_one_after_the_other() -> None:
    """Each waits a bit longer than the one before, nobody longer than the limit."""
    tried = Guesses(Clock())
    assert [tried.failed("a") for _ in range(BURST)] == [0.0] * BURST
    assert tried.failed("a") == 1 / PER_SECOND
    assert tried.failed("a") == 2 / PER_SECOND
    assert tried.failed("b") == 0.0
    for _ in range(1000):
        last = tried.failed("a")
    assert last == DELAY_S_MAX


def test_time_heals() -> None:
    """After the longest wait and the burst's time an address begins anew."""
    clock = Clock()
    tried = Guesses(clock)
    for _ in range(1000):
        tried.failed("a")
    clock.now_s += DELAY_S_MAX + BURST / PER_SECOND
    assert tried.failed("a") == 0.0


def test_addresses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was wrong first is forgotten, where none is forgiven."""
    monkeypatch.setattr(guesses, "ADDRESSES_MAX", 3)
    clock = Clock()
    tried = Guesses(clock)
    for host in "abcd":
        for _ in range(BURST + 1):
            delay_s = tried.failed(host)
        assert delay_s > 0
    assert tried.failed("a") == 0.0
    assert tried.failed("d") > 0


def test_a_network_of_ipv6_is_one_address() -> None:
    """Whoever has one of its addresses has them all; IPv4 in IPv6 is IPv4."""
    tried = Guesses(Clock())
    for number in range(BURST):
        assert tried.failed(f"2001:db8::{number:x}") == 0.0
    assert tried.failed("2001:db8:0:0:ffff::1%eth0") > 0
    assert tried.failed("2001:db8:0:1::1") == 0.0
    for number in range(BURST):
        tried.failed("10.1.2.3" if number % 2 else "::ffff:10.1.2.3")
    assert tried.failed("10.1.2.3") > 0


def test_room_is_made_for_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All addresses are looked at for it, so not for each new one."""
    monkeypatch.setattr(guesses, "ADDRESSES_MAX", 1000)
    tried, looks = Guesses(Clock()), list[float]()
    make_room = tried._make_room

    def look(now_s: float) -> None:
        looks.append(now_s)
        make_room(now_s)

    monkeypatch.setattr(tried, "_make_room", look)
    for number in range(2000):
        tried.failed(f"10.0.{number // 256}.{number % 256}")
    assert 0 < len(looks) <= 11


def test_refusals_are_told_in_a_bounded_number(caplog: pytest.LogCaptureFixture) -> None:
    """Of many within a second some, then how many more there were."""
    clock, log = Clock(), logging.getLogger("test")
    tried = Guesses(clock)
    for _ in range(25):
        tried.tell(log, "10.1.2.3", 310, "no")
    assert len(caplog.messages) == guesses.TOLD_PER_SECOND
    assert caplog.messages[0] == "access_refused remote=10.1.2.3 code=310 remark='no'"
    clock.now_s += 1
    tried.tell(log, "10.1.2.3", 310, "no")
    assert caplog.messages[-2:] == ["access_refused more=15", caplog.messages[0]]
