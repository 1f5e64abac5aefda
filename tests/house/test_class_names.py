"""A class is known by its name alone: no other one has it, in whatever folder."""

import ast
from collections import defaultdict
from typing import Final

from support.runs.source_tree import name, nodes, package_files

NAMED_ALIKE: Final = "client/sync/"
"""Its clients have the names of the asyncio ones, which `test_sync_clients.py` holds."""


def test_no_two_classes_have_one_name() -> None:
    """Who reads a name, or searches for it, need not ask which one is meant."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (each for each in package_files() if not name(each).startswith(NAMED_ALIKE)):
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(name(path))
    twice = {each: sorted(places) for each, places in found.items() if len(places) > 1}
    assert twice == {}
