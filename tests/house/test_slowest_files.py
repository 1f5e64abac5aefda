"""The order in which files of tests are handed out."""

from pathlib import Path

import pytest
from support.runs.slowest_files import APART, HOUSE, SESSION, SLOWEST, TESTS, handed_out_with


def test_slowest_files_exist() -> None:
    """A name that is no file's any more would let that file run last."""
    assert [name for name in SLOWEST if not (TESTS / name).is_file()] == []


def test_slowest_files_come_first(request: pytest.FixtureRequest) -> None:
    """Of what this run has, and each file's tests stay together."""
    files = list(dict.fromkeys(item.path for item in request.session.items))
    slow = [path for name in SLOWEST if (path := TESTS / name) in files]
    assert files[: len(slow)] == slow
    changes = sum(
        one.path != other.path
        for one, other in zip(request.session.items, request.session.items[1:], strict=False)
    )
    assert changes == len(files) - 1


def test_what_shares_a_session_stays_together() -> None:
    """One session of Spark's for a run, but for the files that have processes of their own."""
    folder = TESTS.parent / SESSION
    assert all((folder / name).is_file() for name in APART)
    shared = [f"{SESSION}{path.name}::test[a::b]" for path in folder.glob("test_*.py")]
    assert {handed_out_with(each) for each in shared} == {SESSION} | {
        f"{SESSION}{name}" for name in APART
    }
    assert handed_out_with(f"{HOUSE}{Path(__file__).name}::test[a]") == HOUSE
    assert (TESTS.parent / HOUSE / Path(__file__).name).is_file()
    assert handed_out_with("tests/unit/test_a.py::test[b]") == "tests/unit/test_a.py"
