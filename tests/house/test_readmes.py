"""Each room says what it is for, who writes its state, what it may import, where to begin."""

import re
from pathlib import Path
from typing import Final

import pytest
from support.runs.source_tree import ROOT, imports, name, package_files, packages, text

LINES_MAX: Final = 16
"""Of the part that answers the questions; what is drawn below stands under a heading of its own."""
QUESTIONS: Final = ("State", "May import", "Begin reading with")
ALL: Final = re.compile(r"\b(all|every(thing)?)\b")
"""Said of those that may import whatever is below them."""
LATE: Final[dict[str, str]] = {}
"""What a room imports that its README does not say."""


def rooms() -> list[str]:
    """Name the sub-packages of the folders, and theirs: `broker/pulls`."""
    return [
        name(path.parent)
        for path in package_files()
        if path.name == "__init__.py" and len(path.relative_to(ROOT).parts) > 2
    ]


@pytest.mark.parametrize("room", rooms())
def test_a_room_answers_who_comes_in(room: str) -> None:
    """Its README is named as the room is, says what it is for, and answers three questions."""
    lines = (ROOT / room / "README.md").read_text().splitlines()
    assert lines[0] == f"# {room}"
    headings = [number for number, line in enumerate(lines) if line.startswith("## ")]
    lines = lines[: headings[0]] if headings else lines
    assert len(lines) <= LINES_MAX
    assert lines[2] and not lines[2].startswith("-"), "first, what it is for"
    asked = [
        line.partition("**")[2].partition(":**")[0] for line in lines if line.startswith("- **")
    ]
    assert [each for each in asked if each in QUESTIONS] == list(QUESTIONS)


def test_a_readme_names_each_room_that_is_imported() -> None:
    """What is named is allowed; what is not named is imported by nobody."""
    found = {room: imported(room) - named(room) for room in rooms()}
    missing = {room: ", ".join(sorted(used)) for room, used in found.items() if used}
    assert {room: used for room, used in missing.items() if room not in LATE} == {}
    assert {room: used for room, used in missing.items() if room in LATE} == LATE


def test_the_readme_of_a_folder_names_each_of_its_rooms() -> None:
    """Where a folder, or a room, has rooms, who reads it finds all of them."""
    for folder in (*packages(), *rooms()):
        inner = {Path(room).name for room in rooms() if Path(room).parent == Path(folder)}
        written = (ROOT / folder / "README.md").read_text()
        assert {each for each in inner if f"{each}/" not in written} == set(), folder


def named(room: str) -> set[str]:
    """Name the rooms that a README allows."""
    written = text(ROOT / room / "README.md")
    allowed = re.search(r"\*\*May import:\*\*(.*?)(?=\n- \*\*|\n\n|\Z)", written, re.DOTALL)
    assert allowed, room
    if ALL.search(allowed[1]) or "and below" in allowed[1]:
        return {Path(each).name for each in rooms()}
    return set(re.findall(r"`(\w+)/?`", allowed[1]))


def imported(room: str) -> set[str]:
    """Name the rooms of the same folder that a room imports, for types too."""
    folder, *within = room.split("/")
    used = set()
    for path in package_files():
        if path.parent != ROOT / room:
            continue
        for each in imports(path):
            parts = each.split(".")
            if parts[:2] == ["aerobee", folder] and "keys" not in parts[3:]:  # of features
                used.update(parts[2:3])
    return {each for each in used - set(within) if f"{folder}/{each}" in rooms()}
