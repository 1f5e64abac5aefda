"""Markdown as the repository has it, made into what the site's generator understands."""

import os
import re
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import PurePosixPath
from typing import Final

_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
_ITEM: Final = re.compile(r" *(?:[-*+]|\d+\.) ")
_CODE: Final = re.compile(r"(`+)(.+?)\1")
_MARKER: Final = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
_ELSEWHERE: Final = re.compile(r"[a-z]+:|#")
"""How links begin that lead to no other file."""


def lines_of(markdown: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it is text rather than a part of a fenced block."""
    fence = ""
    for line in markdown.splitlines():
        stripped = line.strip()
        if fence:
            yield line, False
            fence = "" if stripped == fence else fence
        elif found := re.match(r"`{3,}|~{3,}", stripped):
            fence = found[0]
            yield line, False
        else:
            yield line, True


def for_the_site(markdown: str) -> str:
    """Return Markdown whose lists and tables are shown by Python-Markdown as GitHub shows them.

    A list may follow its paragraph at once there, and code in a table has its bars escaped.
    """
    lines: list[str] = []
    within = False
    """Whether the last paragraph is an item of a list."""
    for line, is_text in lines_of(markdown):
        if is_text and line.startswith("|"):
            line = _CODE.sub(lambda code: code[0].replace(r"\|", "|"), line)
        if is_text and _ITEM.match(line):
            if lines and lines[-1].strip() and not within:
                lines.append("")
            within = True
        elif not line.strip():
            within = False
        lines.append(line)
    return "\n".join(lines) + "\n"


def filled(markdown: str, generated: Callable[[str], str]) -> str:
    """Return a page with what is generated in the places of its markers."""
    return _MARKER.sub(lambda marker: generated(marker[1]).strip(), markdown)


def linked(markdown: str, lead: Callable[[str], str | None]) -> str:
    """Return a page in which `lead` says where links to files lead; None: the text alone stays."""

    def link(found: re.Match[str]) -> str:
        mark, text, target = found.groups()
        path, hash_sign, anchor = target.partition("#")
        if _ELSEWHERE.match(target):
            return found[0]
        to = lead(path)
        return text if to is None else f"{mark}[{text}]({to}{hash_sign}{anchor})"

    parts = []
    for is_text, lines in groupby(lines_of(markdown), key=lambda each: each[1]):
        part = "\n".join(line for line, _ in lines)
        parts.append(_LINK.sub(link, part) if is_text else part)
    return "\n".join(parts)


def headline(markdown: str) -> str:
    """Return a page's first heading without its marks."""
    found = re.search(r"^# (.+)$", markdown, re.MULTILINE)
    return found[1].replace("`", "").replace("*", "") if found else ""


def relative(from_page: PurePosixPath, to: PurePosixPath) -> str:
    """Return how a page links to another file of the site."""
    return PurePosixPath(os.path.relpath(to, from_page.parent)).as_posix()
