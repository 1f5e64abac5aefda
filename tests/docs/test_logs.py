"""Every error that a server logs stands in the list of lines to act on."""

import ast
import re
from collections.abc import Iterator

from support.runs.source_tree import ROOT, name, nodes, package_files

LIST = (ROOT / "deploy/LOGS.md").read_text()
SERVERS = ("broker/", "storage/", "namesrv/", "remoting/")
TOOLS = ("storage/repair", "storage/tools", "storage/verify", "storage/dump")
LEVELS = {"error", "exception", "critical"}
LOGS = {"log", "self._log"}
ANY = {"%s failed"}  # what failed is said by who logs it: `fault` with its place


def events() -> Iterator[tuple[str, str]]:
    """Yield the event of every call that logs an error, with its module."""
    for path in package_files():
        if not name(path).startswith(SERVERS) or name(path).startswith(TOOLS):
            continue
        for node in nodes(path):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr=level, value=log), args=[ast.Constant(value=text), *_]
                ) if level in LEVELS and ast.unparse(log) in LOGS and text not in ANY:
                    yield re.split(r" \w+=|;|:", str(text), maxsplit=1)[0], name(path)


def test_the_list_has_every_error() -> None:
    """An operator finds what he reads in his log; the list has nothing that nobody writes."""
    found = dict(events())
    listed = set(re.findall(r"`([^`]+)`", LIST))
    assert len(found) > 100
    assert not {event: where for event, where in found.items() if event not in listed}
    source = "".join(path.read_text() for path in package_files() if name(path).startswith(SERVERS))
    events_listed = {each for row in re.findall(r"^\| (`.*?) \|", LIST, re.MULTILINE)
                     for each in re.findall(r"`([^`]+)`", row)}  # fmt: skip
    assert not {each for each in events_listed if each not in source}
