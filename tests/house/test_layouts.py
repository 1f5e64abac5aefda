"""Where numbers stand in records, queue entries and frames is written once, and made from there."""

import ast
import re
import runpy

from support.runs.source_tree import ROOT, compiled_files, name, package_files, text

TABLE = "remoting/message/layout.py"
MADE = ("broker/compiled/layout.pxi", "spark/compiled/layout.pxi")
NUMBERS = {0xDAA320A7, 0xDAA320AB, 0xCBD43194, 91, 88, 84, 108}
"""The magic numbers; the sizes of a record without body, and up to it, of IPv4 and IPv6 hosts."""
FORMATS = re.compile(r"qiq|IIi|iI\d|iiiii|^>II$")
"""What only an entry, a record, a batch or a frame has in a struct."""


def test_compiled_code_has_the_numbers_of_the_table() -> None:
    """`python deploy/compiled_layout.py` writes them; nobody else does."""
    made = runpy.run_path(str(ROOT / "deploy/compiled_layout.py"))
    assert made["PLACES"] == MADE
    for place in MADE:
        assert (ROOT / place).read_text() == made["text"](), (
            f"run deploy/compiled_layout.py: {place}"
        )


def test_no_other_module_knows_them_by_heart() -> None:
    """A layout that stands twice is changed once."""
    found = []
    for path in package_files():
        if name(path) == TABLE:
            continue
        for node in ast.walk(ast.parse(text(path))):
            if isinstance(node, ast.Constant) and _is_layout(node.value):
                found.append(f"{name(path)}:{node.lineno}: {node.value!r}")
    assert not found


def _is_layout(value: object) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return value in NUMBERS
    short = isinstance(value, str) and len(value) < 30 and value.startswith((">", "<", "q", "i"))
    return short and bool(FORMATS.search(str(value)))


def test_no_compiled_module_knows_them_by_heart() -> None:
    """But for what is made."""
    numbers = "|".join(f"{number}|{number:#x}" for number in sorted(NUMBERS))
    words = re.compile(rf"(?<![\w.])({numbers})(?!\w)")
    found = [
        f"{name(path)}:{number}: {line.strip()}"
        for path in compiled_files()
        if name(path) not in MADE
        for number, line in enumerate(text(path).splitlines(), 1)
        if words.search(line.partition("#")[0].lower())
    ]
    assert not found
