"""A class is known by its name alone: no other one has it, in whatever folder."""

import ast
from collections import defaultdict
from typing import Final

from support.runs.source_tree import name, nodes, package_files

TWICE: Final = {
    "Entries": "of one queue, and of one stretch of the log as columns",
}
"""Names of two classes all the same, and what each of them is."""


def test_no_two_classes_have_one_name() -> None:
    """Who reads a name, or searches for it, need not ask which one is meant."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in package_files():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(name(path))
    twice = {each: sorted(places) for each, places in found.items() if len(places) > 1}
    assert {each: places for each, places in twice.items() if each not in TWICE} == {}
    assert [each for each in TWICE if each not in twice] == [], "take them off the list"
