"""The form of a broker's rooms: who makes them, and who sees them all."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

from support.runs.source_tree import imports, module, name, nodes, package_files

CONTEXT: Final = "aerobee.broker.start.context"
SEE_IT: Final = (
    "broker/processors/",
    "broker/features/access/",
    "broker/features/audit/",
    "broker/features/static_topics/",
    "broker/features/http/",
    "broker/features/metrics/",
    "broker/features/replies/",
    "broker/measures/",
    "broker/start/",
    "broker/app.py",
)
FORMS: Final = {"Room", "Feature"}
MADE_IN: Final = {"parts.py", "feature.py"}
ELSEWHERE: Final = {  # parts of a room that have a place of their own in the order of the stop
    "broker/front/lateness.py": "nothing is late from the moment at which nobody beats any more",
    "broker/health/background.py": "all works end before the first room that they work on",
}
FEATURES: Final = "aerobee.broker.features"
LIFELESS: Final = {"broker/sends/parts.py": "neither starts, nor stops, nor keeps anything"}


KEYS: Final = "broker.settings"
"""Where the keys of features are collected: a `keys.py` counts with it, not with its room."""


def broker_files() -> list[Path]:
    """List the modules of the broker."""
    return [path for path in package_files() if name(path).startswith("broker/")]


def test_doors_and_the_start_alone_see_the_context() -> None:
    """A room below gets the rooms that it needs by its constructor."""
    users = {name(path) for path in broker_files() if CONTEXT in imports(path)}
    assert not {each for each in users if not each.startswith(SEE_IT)}


def test_no_family_of_requests_knows_another() -> None:
    """What two of them do is in a room below; `families.py` is their list."""
    families = {
        path.stem: path for path in broker_files() if name(path).startswith("broker/processors/")
    }
    pairs = {
        (family, other)
        for family, path in families.items()
        for other in families
        if f"aerobee.broker.processors.{other}" in imports(path) and family != "families"
    }
    assert not pairs


def test_no_feature_knows_another() -> None:
    """Each can be switched off by itself, and `listed.py` knows them by name alone."""
    features = [each for each in broker_files() if name(each).startswith("broker/features/")]
    rooms = {module(path.parent / "__init__.py") for path in features} - {FEATURES}
    pairs = {
        (name(path), room)
        for path in features
        for room in rooms - {module(path.parent / "__init__.py")}
        if any(f"{each}.".startswith(f"{room}.") for each in imports(path))
    }
    assert len(rooms) > 2 and not pairs


def test_a_room_is_made_by_its_parts_or_its_feature() -> None:
    """Whoever looks for what a room is to the broker opens one file; each such file has a room."""
    made = {
        name(path)
        for path in broker_files()
        for node in nodes(path)
        if isinstance(node, ast.ClassDef)
        if FORMS & {base.id for base in node.bases if isinstance(base, ast.Name)}
    }
    elsewhere = {each for each in made if Path(each).name not in MADE_IN}
    assert elsewhere == set(ELSEWHERE)
    lifeless = {name(path) for path in broker_files() if path.name in MADE_IN} - made
    assert lifeless == set(LIFELESS)


def test_rooms_of_all_folders_know_each_other_in_one_direction() -> None:
    """Imports of types and late ones count; what stands beside the rooms is a room by itself."""
    known = {module(path): room(path) for path in package_files()}
    uses: dict[str, set[str]] = {}
    for path in package_files():
        if name(path).count("/") == 1 and path.name == "__init__.py":
            continue  # hands over what is in its rooms
        mine = uses.setdefault(room(path), set())
        mine.update(known[each] for each in imports(path) if each.count(".") > 1 and each in known)
        mine.discard(room(path))
    assert list(TopologicalSorter(uses).static_order())


def room(path: Path) -> str:
    """Name the room of a module: `broker.pulls`, or `client.message` for one that is in none."""
    parts = module(path).split(".")
    is_keys = parts[1:2] == ["broker"] and path.name == "keys.py"
    return KEYS if is_keys else ".".join(parts[1:3])
