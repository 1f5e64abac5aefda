"""`make quick` picks the tests that a change needs: too few would be a false comfort."""

import subprocess
from pathlib import Path

from support.runs.quick import changed_files, needed_tests

TESTS = {
    "tests/unit/broker/pulls/test_held.py": "from aerobee.broker.pulls.held import Holds",
    "tests/unit/broker/test_held_limits.py": "",
    "tests/unit/broker/pulls/test_server.py": "from aerobee.broker.pulls.held import Holds",
    "tests/unit/broker/tables/test_topics.py": "from aerobee.broker.pulls import held, parts",
    "tests/unit/client/test_hold.py": "",
    "tests/property/test_frames.py": "from aerobee.remoting.frame import decode",
}


def test_named_tests_come_first_then_those_that_import_it() -> None:
    """And tests that were changed themselves, whatever they are about."""
    first, after = needed_tests(["broker/pulls/held.py", "tests/unit/client/test_hold.py"], TESTS)
    assert sorted(first) == [
        "tests/unit/broker/pulls/test_held.py",
        "tests/unit/broker/test_held_limits.py",
        "tests/unit/client/test_hold.py",
    ]
    assert after == [
        "tests/unit/broker/pulls/test_server.py",
        "tests/unit/broker/tables/test_topics.py",
    ]


def test_documents_need_no_tests() -> None:
    """The rules of the house look at them, and always run."""
    assert needed_tests(["README.md", "benchmarks/tables.py"], TESTS) == ([], [])


def test_what_has_changed_is_what_main_has_not(tmp_path: Path) -> None:
    """Committed on a branch, not committed, new; on main itself, the last commit."""

    def git(*words: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path, check=True,
            capture_output=True,
        )  # fmt: skip

    git("init", "-b", "main")
    for name in ("one", "two"):
        (tmp_path / name).write_text("1")
        git("add", ".")
        git("commit", "-m", name)
    assert changed_files(tmp_path) == ("in the last commit", ["two"])
    (tmp_path / "one").write_text("2")
    (tmp_path / "new").write_text("1")
    assert changed_files(tmp_path) == ("since the last commit", ["one", "new"])
    git("switch", "-c", "work")
    git("commit", "-am", "change")
    (tmp_path / "two").unlink()
    assert changed_files(tmp_path) == ("since main", ["one", "new"])
