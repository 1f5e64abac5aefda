"""A second try is for what a machine's scheduler can spoil, and is always told."""

import pytest
from support.runs.reruns import FILES, FOLDERS, TESTS, may_be_rerun
from support.runs.source_tree import project


def test_what_may_be_rerun_exists() -> None:
    """A name that is no file's or folder's any more leaves the list."""
    assert [name for name in FILES if not (TESTS / name).is_file()] == []
    assert [name for name in FOLDERS if not (TESTS / name).is_dir()] == []


def test_pure_code_gets_no_second_try(request: pytest.FixtureRequest) -> None:
    """Nor do properties, golden files and simulations, in which every run is the same."""
    sure = ("property", "golden", "simulation", "house", "unit/remoting/message")
    assert not any(may_be_rerun(path) for name in sure for path in (TESTS / name).rglob("*.py"))
    assert may_be_rerun(TESTS / "crash" / "test_kill_broker.py")
    tried = [item for item in request.session.items if item.get_closest_marker("flaky")]
    assert all(may_be_rerun(each.path) or "interop" in each.path.parts for each in tried)


def test_a_second_try_is_told() -> None:
    """The summary of every run names what was tried again."""
    assert "-rfER" in project()["tool"]["pytest"]["ini_options"]["addopts"]
