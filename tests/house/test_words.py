"""A name to which the protocol gives a meaning is written once, in remoting/words.py."""

import ast

from support.runs.source_tree import name, nodes, package_files

from aerobee.remoting import words

HOME = "remoting/words.py"


def test_words_of_the_protocol_are_written_once() -> None:
    """No other module of the product spells one out."""
    spelled = {
        value for key, value in vars(words).items() if key.isupper() and isinstance(value, str)
    }
    found = [
        f"{name(path)}:{node.lineno}: {node.value!r}"
        for path in package_files()
        if name(path) != HOME
        for node in nodes(path)
        if isinstance(node, ast.Constant)
        and (node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value)
        in spelled
    ]
    assert not found
