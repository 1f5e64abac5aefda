"""The order in which files of tests are handed out."""

import pytest
from support.slowest_files import SLOWEST, TESTS


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
