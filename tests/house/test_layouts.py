"""Where numbers stand in records, entries, frames and files is written once, and made of that."""

import ast
import re
import runpy
import struct
from collections.abc import Iterable, Iterator
from typing import Final

import pytest
from support.runs.source_tree import ROOT, compiled_files, name, nodes, package_files, text

from aerobee.remoting.message.layout import BLANK_MAGIC, ENTRY_FIELDS, MAGIC_V1, MAGIC_V2

MADE: Final = (
    "broker/compiled/layout.pxi", "client/compiled/layout.pxi", "spark/compiled/layout.pxi",
    "storage/compiled/layout.pxi",
)  # fmt: skip

MAGICS: Final = {MAGIC_V1, MAGIC_V2, BLANK_MAGIC}
NUMBERS: Final = MAGICS | {91, 88, 84, 108}
"""The magic numbers; the sizes of a record without body, and up to it, of IPv4 and IPv6 hosts."""
WORDS: Final = re.compile(rb"AERO[A-Z]{3}[0-9]|DOUBTED!|SYNCSAID")
"""What our own files begin with, or a part of one."""
FORMAT: Final = re.compile(r"[<>=!@](\d*[xcbBhHiIlLqQnNefdsp?])+")
SIGNED: Final = {(1 << 32) - magic for magic in MAGICS}
"""... as Java has them, without the sign."""
PACKED: Final = {struct.pack(form, magic) for magic in MAGICS for form in ("<I", ">I")}
STEP_BYTES_MIN: Final = 4
"""From a place to the next one: what is less may be the length of a text, or its end."""
FIELD: Final = re.compile(r"(\d*)([a-zA-Z?])")
PLACE: Final = re.compile(r"_?([A-Z0-9_]*_AT|(RECORD|ENTRY|FRAME|HEAD|WORDS|LENGTH)_(BYTES|SIZE))")
STANDS: Final = re.compile(r"(.*[_.])?(at|starts|heads|begins)")

EXCEPTIONS: Final = {
    "remoting/message/layout.py": "the tables of what RocketMQ has",
    "storage/disk/aio.py": "what the kernel takes and gives: iocb, io_event, timespec",
    "storage/disk/files.py": "what the kernel gives: statx",
    "storage/disk/residency.py": "what Python gives: Py_buffer",
    "spark/records/cells.py": "Arrow's views of text, which no file of ours has",
    "storage/features/index/runs.py": "what is in memory alone, in the machine's order",
    "storage/queues/bulk_check.py": "the length before a body",
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
    assert len(found) == 11
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
        "JAVA = -626843481",
        "MAGIC = b'\\xda\\xa3\\x20\\xa7'",
        "record[28:36]",
        "INT64.unpack_from(record, at + 28)",
        "words[self.starts + 4]",
        "body_at += 4",
        "at = (offset - base) * 20",
        "count = size // 20",
        "WORDS_BYTES: Final = 8",
        "ENTRY_SIZE = 20",
        "np.zeros(3, dtype=[('a', '<i4'), ('b', '<i8')])",
        "np.dtype('>i4,>i8')",
        "class Entry(ctypes.Structure): _fields_ = [('size', ctypes.c_int32)]",
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
        "end_at + 1",
        "topic_at + PROPERTIES_LENGTH_BYTES + count",
        "text[:20]",
        "20 << 20",
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
        ("    magic = -626843481", True),
        ("    at = base + 28", True),
        ("    at += 20", True),
        ("    return count * 20", True),
        ("    at += 910", False),
        ("    return to + 2", False),
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
    step = re.compile(r"[-+*/%]=?\s*(20|28|36|54|112)(?!\w)")
    signed = re.compile("|".join(f"-{number}" for number in sorted(SIGNED)))
    for number, line in enumerate(source.splitlines(), 1):
        code = line.partition("#")[0]
        if any(rule.search(code) for rule in (known, place, step, signed)):
            yield f"{number}: {line.strip()}"


def known_by_heart(found: Iterable[ast.AST]) -> list[str]:
    """List what a module has of layouts that are not made from a table."""
    rules = (_is_number, _is_format, _is_dtype, _is_place, _is_slice, _is_step, _is_entry)
    return [
        f"{getattr(node, 'lineno', 0)}: {ast.unparse(node)[:80]}"
        for node in found
        if any(rule(node) for rule in rules)
    ]


def _is_number(node: ast.AST) -> bool:
    """Whether it is a magic number, however it is written, or a size that only records have."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return isinstance(node.operand, ast.Constant) and node.operand.value in SIGNED
    if not isinstance(node, ast.Constant):
        return False
    if isinstance(node.value, bytes):
        return any(magic in node.value for magic in PACKED)
    return type(node.value) is int and node.value in NUMBERS


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
    """Whether the columns of a numpy dtype, or the fields of a C struct, are written out."""
    if isinstance(node, ast.keyword):
        return node.arg == "dtype" and isinstance(node.value, ast.List | ast.Dict)
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]) == "_fields_"
    if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("dtype"):
        return False
    if node.args and isinstance(node.args[0], ast.Constant):
        return "," in str(node.args[0].value)
    return bool(node.args) and isinstance(node.args[0], ast.List | ast.Dict)


def _is_place(node: ast.AST) -> bool:
    """Whether a constant is a place that was counted by hand."""
    if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(node.value, ast.Constant):
        return False
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    named = isinstance(target, ast.Name) and PLACE.fullmatch(target.id)
    return bool(named) and type(node.value.value) is int


def _is_slice(node: ast.AST) -> bool:
    """Whether something is cut out of the middle of bytes, at a place that was counted by hand."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "int.from_bytes":
        part = node.args[0]
        cut = part.slice if isinstance(part, ast.Subscript) else None
        return isinstance(cut, ast.Slice) and _number(cut.lower) > 0
    if not isinstance(node, ast.Slice):
        return False
    return _number(node.lower) >= STEP_BYTES_MIN and _number(node.upper) > 0


def _is_step(node: ast.AST) -> bool:
    """Whether a counted number of bytes is added to a place, or taken from it."""
    if isinstance(node, ast.BinOp):
        place, step = node.left, node.right
    elif isinstance(node, ast.AugAssign):
        place, step = node.target, node.value
    else:
        return False
    if not isinstance(node.op, ast.Add | ast.Sub) or _number(step) < STEP_BYTES_MIN:
        return False
    return bool(STANDS.fullmatch(ast.unparse(place)))


def _is_entry(node: ast.AST) -> bool:
    """Whether something is counted in entries by the bytes of one."""
    if not isinstance(node, ast.BinOp) or not isinstance(
        node.op, ast.Mult | ast.FloorDiv | ast.Mod
    ):
        return False
    return ENTRY_FIELDS.size in (_number(node.left), _number(node.right))


def _number(node: ast.AST | None) -> int:
    """Return the value of a number, -1 for anything else."""
    known = isinstance(node, ast.Constant) and type(node.value) is int
    return node.value if known else -1  # type: ignore[union-attr]
