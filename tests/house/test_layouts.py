"""Where numbers stand in records, entries, frames and files is written once, and made of that."""

import ast
import re
import runpy
from collections.abc import Iterable, Iterator
from typing import Final

import pytest
from support.runs.source_tree import ROOT, compiled_files, name, nodes, package_files, text

MADE: Final = ("broker/compiled/layout.pxi", "spark/compiled/layout.pxi")

NUMBERS: Final = {0xDAA320A7, 0xDAA320AB, 0xCBD43194, 91, 88, 84, 108}
"""The magic numbers; the sizes of a record without body, and up to it, of IPv4 and IPv6 hosts."""
WORDS: Final = re.compile(rb"AERO[A-Z]{3}[0-9]|DOUBTED!|SYNCSAID")
"""What our own files begin with, or a part of one."""
FORMAT: Final = re.compile(r"[<>=!@](\d*[xcbBhHiIlLqQnNefdsp?])+")
FIELD: Final = re.compile(r"(\d*)([a-zA-Z?])")
PLACE: Final = re.compile(r"_?[A-Z0-9_]*_AT")

EXCEPTIONS: Final = {
    "remoting/message/layout.py": "the tables of what RocketMQ has",
    "storage/disk/aio.py": "what the kernel takes and gives: iocb, io_event, timespec",
    "storage/disk/files.py": "what the kernel gives: statx",
    "spark/records/cells.py": "Arrow's views of text, which no file of ours has",
}
"""Modules that write a layout out, and why."""


def test_compiled_code_has_the_numbers_of_the_table() -> None:
    """`python deploy/compiled_layout.py` writes them; nobody else does."""
    made = runpy.run_path(str(ROOT / "deploy/compiled_layout.py"))
    assert made["PLACES"] == MADE
    for place in MADE:
        assert (ROOT / place).read_text() == made["text"](), (
            f"run deploy/compiled_layout.py: {place}"
        )


def test_no_module_knows_a_layout_by_heart() -> None:
    """One that stands twice, or in counted bytes, is changed once."""
    found = {name(path): known_by_heart(nodes(path)) for path in package_files()}
    assert {key: lines for key, lines in found.items() if lines and key not in EXCEPTIONS} == {}
    assert [key for key in EXCEPTIONS if not found[key]] == []


def test_what_a_file_begins_with_stands_once() -> None:
    """Who else needs it imports it."""
    found: dict[bytes, list[str]] = {}
    for path in package_files():
        for node in nodes(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, bytes):
                for word in WORDS.findall(node.value):
                    found.setdefault(word, []).append(name(path))
    assert len(found) == 6
    assert {word: places for word, places in found.items() if len(places) > 1} == {}


def test_no_compiled_module_knows_a_layout_by_heart() -> None:
    """But for what is made."""
    found = {name(path): list(known_to_compiled(text(path))) for path in compiled_files()}
    assert {key: lines for key, lines in found.items() if lines and key not in MADE} == {}


@pytest.mark.parametrize(
    "line",
    [
        "MAGIC = 0xDAA320A7",
        "LEAST = 91",
        "HEAD: Final = struct.Struct('>8sqqi')",
        "struct.pack('>qq', 1, 2)",
        "struct.unpack_from('>iI', data, 4)",
        "struct.calcsize('6q')",
        "Struct('QQ')",
        "struct.Struct(f'>q{count}si')",
        "struct.Struct(HEAD.format + '8sq')",
        "FORM = '>qiq'",
        "np.dtype([('length', '<i4'), ('prefix', '<i4')])",
        "np.dtype({'names': ['a'], 'formats': ['>i4'], 'offsets': [12]})",
        "_SLOTS_AT: Final = 64",
        "DURABLE_AT = 2048",
        "int.from_bytes(head[4:8], 'big')",
    ],
)
def test_what_is_known_by_heart_is_found(line: str) -> None:
    """Each way to write a layout where it does not belong."""
    assert known_by_heart(ast.walk(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        "UINT16 = struct.Struct('>H')",
        "struct.pack('>h', len(topic))",
        "HEAD = Layout(magic='8s', position='q').run()",
        "AT = FIELDS.at('position')",
        "BODY_AT = FIELDS.behind('head')",
        "np.dtype(FIELDS.columns())",
        "int.from_bytes(digest[:4], 'big')",
        "ratio = 90",
    ],
)
def test_what_is_made_from_a_table_is_not(line: str) -> None:
    """Nor a single number, which has no place."""
    assert not known_by_heart(ast.walk(ast.parse(line)))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("if magic == 0xDAA320A7:", True),
        ("    at += 91  # RECORD_BYTES_MIN", True),
        ("DEF POSITION_AT = 28", True),
        ("    at += 910", False),
        ("    at += RECORD_BYTES_MIN  # 91", False),
        ("    cdef Bytes at = begin + MAGIC_AT", False),
    ],
)
def test_what_compiled_code_knows_by_heart_is_found(line: str, *, expected: bool) -> None:
    """Comments may say what they like."""
    assert bool(list(known_to_compiled(line))) == expected


def known_to_compiled(source: str) -> Iterator[str]:
    """Yield the lines of a compiled module that have such a number."""
    numbers = "|".join(f"{number}|{number:#x}" for number in sorted(NUMBERS))
    known = re.compile(rf"(?<![\w.])({numbers})(?!\w)", re.IGNORECASE)
    place = re.compile(rf"(?<!\w){PLACE.pattern}\s*=\s*[0-9]")
    for number, line in enumerate(source.splitlines(), 1):
        code = line.partition("#")[0]
        if known.search(code) or place.search(code):
            yield f"{number}: {line.strip()}"


def known_by_heart(found: Iterable[ast.AST]) -> list[str]:
    """List what a module has of layouts that are not made from a table."""
    rules = (_is_number, _is_format, _is_dtype, _is_place, _is_slice)
    return [
        f"{getattr(node, 'lineno', 0)}: {ast.unparse(node)[:80]}"
        for node in found
        if any(rule(node) for rule in rules)
    ]


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value in NUMBERS


def _is_format(node: ast.AST) -> bool:
    """Whether it is the format of two fields or more, or what makes a struct of such a one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return bool(FORMAT.fullmatch(node.value)) and _fields(node.value) > 1
    if not isinstance(node, ast.Call) or not node.args:
        return False
    owner, _, called = ast.unparse(node.func).rpartition(".")
    if called != "Struct" and owner != "struct":
        return False
    texts = [each.value for each in ast.walk(node.args[0]) if isinstance(each, ast.Constant)]
    return _fields("".join(each for each in texts if isinstance(each, str))) > 1


def _fields(form: str) -> int:
    return sum(1 if kind in "sp" else int(count or 1) for count, kind in FIELD.findall(form))


def _is_dtype(node: ast.AST) -> bool:
    """Whether the columns of a numpy dtype are written out."""
    if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("dtype"):
        return False
    return bool(node.args) and isinstance(node.args[0], ast.List | ast.Dict)


def _is_place(node: ast.AST) -> bool:
    """Whether a constant is a place that was counted by hand."""
    if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(node.value, ast.Constant):
        return False
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    named = isinstance(target, ast.Name) and PLACE.fullmatch(target.id)
    return bool(named) and type(node.value.value) is int


def _is_slice(node: ast.AST) -> bool:
    """Whether a number is cut out of the middle of bytes, at a place that was counted by hand."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "int.from_bytes":
        return False
    part = node.args[0]
    if not isinstance(part, ast.Subscript) or not isinstance(part.slice, ast.Slice):
        return False
    low = part.slice.lower
    return isinstance(low, ast.Constant) and bool(low.value)
