"""What a change needs, in under a minute: `make quick`.

Looked at is what differs from `main`, or, on `main` itself, what is not committed, or else the last
commit. Of that: style of the changed files, the rules of the house, the changed tests, the tests
that are named after a changed module, and last, as far as the minute goes, those that import one.
It prints what it ran and what it left; `make test` runs everything.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from support.runs.source_tree import ROOT, packages

BUDGET_S: Final = 55.0
QUICK_FOLDERS: Final = ("tests/unit", "tests/property", "tests/golden", "tests/house")
NOT_QUICK: Final = "not spark and not interop and not soak"


def changed_files(root: Path = ROOT) -> tuple[str, list[str]]:
    """Return since when, in words, and the files that have changed and still exist."""
    head = _git(root, "rev-parse", "HEAD")
    for main in ("origin/main", "main"):
        base = _git(root, "merge-base", "HEAD", main)
        if base and base[0] != head[0]:
            return f"since {main}", _existing(root, _differing(root, base[0]))
    if found := _differing(root, "HEAD"):
        return "since the last commit", _existing(root, found)
    return "in the last commit", _existing(root, _git(root, "diff", "--name-only", "HEAD~1"))


def needed_tests(changed: Iterable[str], tests: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the test files that a change needs first, and those that come after.

    `tests` maps the path of each quick test file to its text.
    """
    modules = [module for path in changed if (module := _module(path))]
    first = [path for path in changed if path in tests]
    for module in modules:
        folder, *rooms = module.split(".")[1:]
        name = rooms.pop() if rooms else folder
        room = f"(/{'/'.join(rooms)})?" if rooms else ""
        near = re.compile(
            rf"tests/(unit/{folder}\w*{room}|property|golden)/test_(\w+_)?{name}(_\w+)?\.py"
        )
        first += [path for path in tests if near.fullmatch(path)]
    uses = re.compile("|".join(map(re.escape, modules)) or r"(?!)")
    after = [
        path for path, text in tests.items() if uses.search(text) or _uses_parts(text, modules)
    ]
    return list(dict.fromkeys(first)), [path for path in dict.fromkeys(after) if path not in first]


def _uses_parts(text: str, modules: Iterable[str]) -> bool:
    """Whether a text says `from aerobee.folder import module`."""
    for module in modules:
        folder, _, name = module.rpartition(".")
        if re.search(rf"from {re.escape(folder)} import [^\n]*\b{name}\b", text):
            return True
    return False


def _module(path: str) -> str | None:
    """Return the name under which a file of the product is imported."""
    parts = PurePosixPath(path)
    if parts.suffix not in (".py", ".pyx") or parts.parts[0] not in packages():
        return None
    names = parts.with_suffix("").parts
    return ".".join(("aerobee", *(names[:-1] if names[-1] == "__init__" else names)))


def _differing(root: Path, base: str) -> list[str]:
    new = _git(root, "ls-files", "--others", "--exclude-standard")
    return _git(root, "diff", "--name-only", base) + new


def _existing(root: Path, paths: Iterable[str]) -> list[str]:
    return [path for path in dict.fromkeys(paths) if (root / path).is_file()]


def _git(root: Path, *words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def _run(what: str, words: list[str], budget_s: float) -> int | None:
    """Run one step; return its exit code, None where it took longer than there was time."""
    print(f"-- {what}", flush=True)
    try:
        return subprocess.run(words, cwd=ROOT, check=False, timeout=max(budget_s, 1.0)).returncode
    except subprocess.TimeoutExpired:
        return None


def _pytest(paths: list[str]) -> list[str]:
    workers = ["-n", os.environ.get("WORKERS", "2")] if len(paths) > 4 else []
    return [sys.executable, "-m", "pytest", "-q", "-x", "-m", NOT_QUICK, *workers, *paths]


def main() -> int:
    """Run it; 0 where all that was run has passed."""
    began_s = time.monotonic()
    since, changed = changed_files()
    print(f"{len(changed)} files changed {since}")
    quick = {
        str(path.relative_to(ROOT)): path.read_text()
        for folder in QUICK_FOLDERS
        for path in sorted((ROOT / folder).rglob("test_*.py"))
    }
    first, after = needed_tests(changed, quick)
    python = [path for path in changed if path.endswith((".py", ".pyi"))]
    ruff = str(Path(sys.executable).with_name("ruff"))
    steps = [("tests/house", _pytest(["tests/house"]))]
    if python:
        steps.insert(0, ("style", [ruff, "check", *python]))
        steps.insert(0, ("format", [ruff, "format", "--check", *python]))
    for part in (first, after):
        if named := [path for path in part if not path.startswith("tests/house")]:
            steps.append((" ".join(named), _pytest(named)))
    for what, words in steps:
        code = _run(what, words, BUDGET_S - (time.monotonic() - began_s))
        if code is None:
            print(f"-- the minute is over, not finished: {what}\n-- make test runs everything")
            return 0 if what == steps[-1][0] and after else 1
        if code not in (0, 5):  # 5: nothing was left to run
            return code
    print(f"-- passed in {time.monotonic() - began_s:.0f} s; make test runs everything")
    return 0


if __name__ == "__main__":
    sys.exit(main())
