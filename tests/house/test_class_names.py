"""A class is known by its name alone: no other one has it, in whatever folder.

Adapters have the names that users of their frameworks look for: each may have an AerobeeBroker.
"""

import ast
from collections import defaultdict
from pathlib import Path
from typing import Final

from support.runs.source_tree import module, name, nodes, package_files


def is_adapter(path: Path) -> bool:
    """Whether a module is of a framework's adapter."""
    return name(path).startswith("integrations/")


NAMED_ALIKE: Final = ("client/sync/", "integrations/django/management/")
"""Clients with the names of the asyncio ones, which `test_sync_clients.py` holds; what Django calls
by a name of its own."""


def test_no_two_classes_have_one_name() -> None:
    """Who reads a name, or searches for it, need not ask which one is meant."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (each for each in package_files() if not name(each).startswith(NAMED_ALIKE)):
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                own = ".".join(module(path).split(".")[1:3]) if is_adapter(path) else ""
                found[f"{own}:{node.name}"].add(name(path))
    twice = {each: sorted(places) for each, places in found.items() if len(places) > 1}
    assert twice == {}
