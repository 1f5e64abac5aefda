"""From the repository to a folder of pages: `docs/`, what it takes in, and what is generated."""

import os
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

from deploy.documents.page_text import filled, for_the_site, headline, linked, relative

ROOT: Final = Path(__file__).resolve().parents[2]
OWN: Final = PurePosixPath("docs")
INSIDE: Final = PurePosixPath("inside")
"""Where documents stand that have no better place: each at the path of its folder."""
NAVIGATION: Final = ROOT / "docs" / "navigation.toml"
"""What stands where in the site, and which documents of the repository are pages of it."""
LEFT_OUT: Final = (".github/ISSUE_TEMPLATE/", ".github/pull_request_template.md")


class Assembled:
    """The pages of the site, and what lies beside them, by their path in it."""

    def __init__(self) -> None:
        self.titles: dict[PurePosixPath, str] = {}
        self.files: set[PurePosixPath] = set()


def assemble(into: Path, generated: Callable[[str], str]) -> Assembled:
    """Write every page of the site and what pages show or hand out; `into` is made anew."""
    shutil.rmtree(into, ignore_errors=True)
    committed = _committed()
    places = {path: place(path) for path in sorted(committed) if _is_page(path)}
    found = Assembled()
    for path, page in places.items():
        markdown = (ROOT / path).read_text()

        def lead(target: str, path: PurePosixPath = path, page: PurePosixPath = page) -> str | None:
            to = PurePosixPath(os.path.normpath(path.parent / target))
            if to not in places and to / "README.md" in places:
                to /= "README.md"
            if to in places:
                return relative(page, places[to])
            if to not in committed:
                return None  # a folder without a page, or what is no file of the repository
            found.files.add(to)
            return relative(page, place(to))

        _write(into / page, for_the_site(linked(filled(markdown, generated), lead)))
        found.titles[page] = headline(markdown) or page.stem
    for file in found.files:
        (into / place(file)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, into / place(file))
    return found


def place(path: PurePosixPath) -> PurePosixPath:
    """Return where a file of the repository is in the site."""
    if (page := _places().get(path.as_posix())) is not None:
        return PurePosixPath(page)
    if path.is_relative_to(OWN):
        return path.relative_to(OWN)
    return INSIDE / (path.with_name("index.md") if path.name == "README.md" else path)


@cache
def _places() -> dict[str, str]:
    """Return the documents that have a place of their own among the pages."""
    places: dict[str, str] = tomllib.loads(NAVIGATION.read_text())["places"]
    return places


def _is_page(path: PurePosixPath) -> bool:
    return path.suffix == ".md" and not path.as_posix().startswith(LEFT_OUT)


def _committed() -> set[PurePosixPath]:
    """Name the files that a clone would hold, and those that are about to be committed."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    names = filter(None, listed.stdout.split("\0"))
    return {PurePosixPath(name) for name in names if (ROOT / name).is_file()}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
