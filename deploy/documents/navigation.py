"""What stands where in the site: `docs/navigation.toml`, and behind it the insides by folder."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from deploy.documents.assembling import INSIDE, NAVIGATION, STYLE

Entry: TypeAlias = "str | Mapping[str, Any]"


class NavigationError(Exception):
    """A page is not there, or nothing leads to one that is."""


def navigation(titles: Mapping[PurePosixPath, str]) -> list[Entry]:
    """Return the entries as the site's settings have them.

    Raises NavigationError where a page is missing whose entry does not end with `?`, or one of
    `docs/` has no entry.
    """
    left = set(titles)
    entries: list[Entry] = []
    for section in tomllib.loads(NAVIGATION.read_text())["section"]:
        pages = _pages(section["pages"], titles)
        left -= {PurePosixPath(page) for page in pages}
        shown = [{titles[PurePosixPath(page)]: page} for page in pages]
        if "title" not in section:
            entries += shown
        elif pages:
            entries.append({section["title"]: shown})
    inside = sorted(page for page in left if page.is_relative_to(INSIDE))
    if lost := sorted(map(str, left.difference(inside))):
        raise NavigationError(f"no entry in {NAVIGATION.name} for {', '.join(lost)}")
    entries.append({"Inside": _by_folder(inside, titles)})
    return entries


def _pages(listed: Sequence[str], titles: Mapping[PurePosixPath, str]) -> list[str]:
    known = {page.as_posix() for page in titles}
    missing = [page for page in listed if not page.endswith("?") and page not in known]
    if missing:
        raise NavigationError(f"{NAVIGATION.name} has what is no page: {', '.join(missing)}")
    return [page.rstrip("?") for page in listed if page.rstrip("?") in known]


def _by_folder(pages: Sequence[PurePosixPath], titles: Mapping[PurePosixPath, str]) -> list[Entry]:
    folders: dict[str, list[Entry]] = {}
    for page in pages:
        within = page.relative_to(INSIDE).parts
        folder = within[0] if len(within) > 1 else ""
        folders.setdefault(folder, []).append({titles[page]: page.as_posix()})
    beside = folders.pop("", [])
    return [*({folder: entries} for folder, entries in sorted(folders.items())), *beside]


def settings_text(pages: str, site: str, entries: Sequence[Entry]) -> str:
    """Return the file of settings that the generator reads."""
    return f"""\
[project]
site_name = "Aerobee"
site_description = "A broker that speaks RocketMQ's protocol, in Python"
docs_dir = "{pages}"
site_dir = "{site}"
extra_css = ["{STYLE}"]
use_directory_urls = false  # pages open from a disk, too
nav = {_toml(entries)}

[project.theme]
font = false  # nothing is fetched from elsewhere
features = ["navigation.tabs", "navigation.top", "navigation.indexes", "content.code.copy",
            "toc.follow", "search.highlight"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle = {{ icon = "lucide/sun", name = "dark" }}

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle = {{ icon = "lucide/moon", name = "light" }}

[project.markdown_extensions.tables]
[project.markdown_extensions.attr_list]
[project.markdown_extensions.md_in_html]
[project.markdown_extensions.pymdownx.superfences]
[project.markdown_extensions.pymdownx.highlight]
[project.markdown_extensions.toc]
permalink = true
slugify = {{ object = "pymdownx.slugs.slugify", kwds = {{ case = "lower" }} }}
"""


def _toml(value: Any) -> str:
    """Write lists, tables and text in one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(v)}" for key, v in value.items()) + "}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return "[" + ", ".join(map(_toml, value)) + "]"
