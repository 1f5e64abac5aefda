"""Ids of messages."""

import itertools
import os
import time

import pytest
from support.golden.java import java_text

from aerobee.remoting.message.message_id import (
    UniqueIds,
    offset_message_id,
    parse_offset_message_id,
)


@pytest.mark.parametrize(
    ("name", "host"), [("message_id_v4", "10.1.2.3"), ("message_id_v6", "2001:db8::1")]
)
def test_the_broker_s_id_agrees_with_java(name: str, host: str) -> None:
    """Address and position in hex, there and back."""
    message_id = offset_message_id(host, 10911, 123456789012)
    assert message_id == java_text(name)
    assert parse_offset_message_id(message_id) == (host, 10911, 123456789012)
    assert parse_offset_message_id(message_id.lower())[0] == host


@pytest.mark.parametrize("text", ["", "00", "x" * 32, "0" * 31 + " ", " 0" * 16, "0" * 33])
def test_text_that_is_no_id_is_refused(text: str) -> None:
    """A user's typing error is named."""
    with pytest.raises(ValueError, match="message id"):
        parse_offset_message_id(text)


def test_unique_ids_are_laid_out_as_java_s() -> None:
    """Address, process, a number of the object, time since the month began, counter."""
    now = [int(time.mktime((2026, 3, 1, 0, 0, 5, 0, 0, -1)) * 1000)]
    ids = UniqueIds("10.1.2.3", now_ms=lambda: now[0])
    first, second = ids.next(), ids.next()
    assert len(first) == 32
    assert first[:12] == f"0A010203{os.getpid() & 0xFFFF:04X}"
    assert first[20:28] == f"{5000:08X}"
    assert (first[28:], second[28:]) == ("0000", "0001")
    assert first[:28] == second[:28]
    assert len(UniqueIds("::1").next()) == 56
    assert UniqueIds("10.1.2.3").next()[12:20] != first[12:20]


def test_a_new_month_starts_at_zero() -> None:
    """The time counts from the month's first day."""
    end = int(time.mktime((2026, 12, 31, 23, 59, 59, 0, 0, -1)) * 1000)
    now = [end]
    ids = UniqueIds(now_ms=lambda: now[0])
    old = ids.next()
    now[0] = end + 1500
    new = ids.next()
    assert int(old[20:28], 16) == end - int(time.mktime((2026, 12, 1, 0, 0, 0, 0, 0, -1)) * 1000)
    assert int(new[20:28], 16) == 500
    now[0] = end - 3_600_000  # the clock was set back over the boundary
    assert int(ids.next()[20:28], 16) == 0


def test_ids_do_not_repeat() -> None:
    """The counter wraps after 65,536 ids, within which the clock moves on."""
    clock = itertools.count(int(time.time() * 1000))
    ids = UniqueIds(now_ms=lambda: next(clock))
    assert len({ids.next() for _ in range(70_000)}) == 70_000


def test_the_child_of_a_fork_makes_other_ids() -> None:
    """An object that was made before it, as of a server that loads its program first."""
    ids = UniqueIds("10.1.2.3", now_ms=lambda: 0)
    ids.next()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, ids.next().encode())
        os._exit(0)
    os.waitpid(child, 0)
    mine, its = ids.next(), os.read(reading, 32).decode()
    os.close(reading)
    os.close(writing)
    assert len(its) == 32
    assert mine[8:20] != its[8:20]
    assert its[8:12] == f"{child & 0xFFFF:04X}"
