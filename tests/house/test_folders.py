"""The list of top-level folders stands in several places; all of them agree."""

import re
import runpy
from pathlib import Path
from typing import Final

import pytest
from support.runs.source_tree import PACKAGE, ROOT, committed_files, packages, project

import aerobee.remoting

ENTRIES_MAX: Final = 25
BESIDE: Final = {Path("benchmarks")}  # tested, and no part of the package
ELSEWHERE: Final = {  # rooms whose tests stand outside tests/unit, and where
    Path("testing"): "tests/testing/test_cluster.py",
    Path("spark/compiled"): "tests/property/test_spark_loops.py",
    Path("storage/compiled"): "tests/property/test_index_slices.py",
}
RECORDED: Final = {"tests/golden/frames/java-5.5.0-admin"}  # what a peer said, a file for each code


def test_every_typed_folder_is_packaged() -> None:
    """A folder with `py.typed` is in the wheel, and the wheel has no other."""
    typed = {path.parent.name for path in ROOT.glob("*/py.typed")}
    assert typed == set(packages())


def test_the_lists_of_the_tools_agree() -> None:
    """The import contracts and the ban on bare names know every folder."""
    tool = project()["tool"]
    assert tool["importlinter"]["root_packages"] == ["aerobee"]
    layers = tool["importlinter"]["contracts"][0]["layers"]
    assert {part for layer in layers for part in layer.split(" | ")} == {
        f"aerobee.{name}" for name in packages()
    }
    assert set(tool["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]) == set(packages())


def test_an_editable_install_links_every_folder() -> None:
    """The links under `.dev` are there and lead to the folders."""
    links = ROOT / ".dev" / "aerobee"
    if not Path(aerobee.remoting.__path__[0]).is_relative_to(links):
        pytest.skip("not an editable install")
    places = {name: ROOT / name for name in packages()}
    places |= {path.name: path for path in PACKAGE.glob("*.py")}
    assert {link.name for link in links.iterdir() if link.is_symlink()} == set(places)
    for name, place in places.items():
        assert (links / name).resolve() == place


def test_a_folder_can_be_taken_in_at_a_glance() -> None:
    """More than 25 entries are several thoughts."""
    shown: dict[Path, set[str]] = {}
    for path in (path.relative_to(ROOT) for path in committed_files()):
        for inner in (path, *path.parents[:-1]):
            if not inner.name.startswith("."):
                shown.setdefault(inner.parent, set()).add(inner.name)
    large = {str(folder) for folder, names in shown.items() if len(names) > ENTRIES_MAX}
    assert large == RECORDED, large ^ RECORDED


def test_the_drawing_shows_the_rooms_that_there_are() -> None:
    """`python deploy/rooms_drawing.py` draws it anew."""
    made = runpy.run_path(str(ROOT / "deploy/rooms_drawing.py"))
    assert (ROOT / made["DRAWING"]).read_text() == made["draw"](ROOT)


def test_no_line_of_the_drawing_runs_behind_a_box() -> None:
    """It would seem to begin or to end there."""
    drawn = (ROOT / "docs/concepts/rooms.svg").read_text()
    shape = r'<rect class="panel" rx="6" x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)"'
    boxes = [tuple(map(float, box)) for box in re.findall(shape, drawn)]
    for way in re.findall(r'class="way" d="(\S+ [^"]+)"', drawn):
        x, y = 0.0, 0.0
        for kind, numbers in re.findall(r"([MVL])([^MVL]+)", way):
            to = [float(number) for number in numbers.split()]
            end = (x, to[0]) if kind == "V" else (to[0], to[1])
            for part in range(1, 100) if kind != "M" else ():
                at_x, at_y = (x + (end[0] - x) * part / 100, y + (end[1] - y) * part / 100)
                behind = [b for b in boxes if 0 < at_x - b[0] < b[2] and 0 < at_y - b[1] < b[3]]
                assert not behind, way
            x, y = end
    assert boxes


def test_the_tests_of_a_room_stand_at_its_own_path() -> None:
    """Who changes a room finds its tests without a search, and no tests outlive their room."""
    files = [path.relative_to(ROOT) for path in committed_files()]
    unit = ROOT.joinpath("tests", "unit").relative_to(ROOT)
    tested = {
        path.parent.relative_to(unit)
        for path in files
        if path.is_relative_to(unit) and path.name.startswith("test_")
    }
    rooms = {
        path.parent
        for path in files
        if path.parts[0] in packages() and path.suffix in {".py", ".pyx"}
        if path.name != "__init__.py"
    }
    assert rooms - tested == set(ELSEWHERE), "rooms without tests"
    assert set(ELSEWHERE.values()) <= {path.as_posix() for path in files}
    assert tested - rooms == BESIDE, "tests of no room"
