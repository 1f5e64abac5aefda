"""`QueueTail` is all that the log, and compiled code in its place, know of a queue."""

import ast
import re

from support.runs.source_tree import ROOT, compiled_files, nodes, text

from aerobee.storage.queue_tail import QueueTail
from aerobee.storage.queues.consume_queue import ConsumeQueue

MEMBERS = set(QueueTail.__annotations__) | {
    each for each in vars(QueueTail) if not each.startswith("_")
}

TAIL: type[QueueTail] = ConsumeQueue
"""The type checker holds each attribute and method of it to the interface."""


def test_a_queue_has_them_as_attributes_of_its_own() -> None:
    """No property stands between: each is read or set once a message."""
    slots = {name for cls in TAIL.__mro__ for name in getattr(cls, "__slots__", ())}
    assert set(QueueTail.__annotations__) <= slots


def test_the_log_knows_nothing_else_of_a_queue() -> None:
    """Nor does it use anything that no other queue would have."""
    found = nodes(ROOT / "storage/log/commit_log.py")
    used = {
        each.attr
        for each in found
        if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "queue"
    }
    assert used and used <= MEMBERS
    queues = [
        ast.unparse(each.annotation)
        for each in found
        if isinstance(each, ast.arg) and each.arg == "queue" and each.annotation is not None
    ]
    assert queues and set(queues) == {"QueueTail"}
    named = {"topic", "queue_id"}  # by who tells of a refusal
    assert used | named == MEMBERS, "what nobody uses is no part of it"


def test_compiled_sends_know_nothing_else_of_a_queue() -> None:
    """There it is `stored`, the one of the store."""
    used = _used_by_compiled_code()
    assert used and used <= MEMBERS


def _used_by_compiled_code() -> set[str]:
    """Return what sends use; pulls read a queue as others do, by its own attributes."""
    files = [path for path in compiled_files() if "pull" not in path.name]
    sources = "".join(text(path) for path in files)
    return set(re.findall(r"\bstored\.(\w+)", sources))
