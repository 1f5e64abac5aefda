"""The build as a whole: pages, settings, the generator, links."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from deploy.documents.assembling import AssemblyError, assemble
from deploy.documents.generated import generated
from deploy.documents.links import check
from deploy.documents.navigation import NavigationError, navigation, settings_text

SETTINGS: Final = "zensical.toml"
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


class BuildError(Exception):
    """The site is not what it should be; the text names each page and what is wrong there."""


class Site(NamedTuple):
    """A site that was built: where it is, how many pages it has, and whom it links."""

    folder: Path
    pages: int
    elsewhere: Mapping[str, Sequence[str]]
    listed: Path


def build(into: Path) -> Site:
    """Build the site below a folder, from what is committed and what is about to be.

    Raises BuildError where a page is missing, the generator complains, a link leads nowhere, or
    the folder has something that no build has made.
    """
    _claim(into)
    try:
        assembled = assemble(into / "pages", generated)
        entries = navigation(assembled.titles)
    except (AssemblyError, NavigationError) as error:
        raise BuildError(str(error)) from None
    settings = into / SETTINGS
    settings.write_text(settings_text("pages", "site", entries))
    shutil.rmtree(into / "site", ignore_errors=True)
    _generate(settings)
    links = check(into / "site")
    if links.broken:
        raise BuildError("\n".join(links.broken))
    listed = into / "elsewhere.txt"
    listed.write_text(
        "".join(f"{url}  {', '.join(pages)}\n" for url, pages in sorted(links.elsewhere.items()))
    )
    return Site(into / "site", len(assembled.titles), links.elsewhere, listed)


def _claim(into: Path) -> None:
    """Make the folder, or see by the settings in it that a build has made it."""
    into.mkdir(parents=True, exist_ok=True)
    if any(into.iterdir()) and not (into / SETTINGS).is_file():
        raise BuildError(f"{into} has files that no build has made: give another folder")
    (into / SETTINGS).touch()


def _generate(settings: Path) -> None:
    """Run the generator in a process of its own; whatever it warns of is an error."""
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", settings.name],
        cwd=settings.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        said = _COLOURS.sub("", f"{done.stdout}\n{done.stderr}")
        raise BuildError(f"zensical: {said.partition('Traceback')[0].strip() or said}")
