"""A class is given what it needs, and that is little: at most five arguments."""

import ast
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import pytest
from support.runs.source_tree import name, nodes, package_files

ARGUMENTS_MAX: Final = 5

WIDE: Final = {
    "AerobeeBroker": "options that users write by name",
    "Context": "the rooms of a broker, side by side, as its doors see them",
    "LitePullConsumer": "options that users write by name",
    "Parts": "the rooms that a feature may be made of",
    "PushConsumer": "options that users write by name",
    "PullConsumer": "options that users write by name",
    "TransactionProducer": "options that users write by name",
}
"""Classes that may be given more, and why."""


class Made(NamedTuple):
    """A class, and how many arguments make one."""

    name: str
    place: str
    arguments: int


def test_each_class_is_given_five_things_at_most() -> None:
    """What takes more does two things, or is given the parts of something that has no name yet."""
    large = {each.name: each.place for each in too_large(_found())}
    assert {key: large[key] for key in large if key not in WIDE} == {}
    assert [key for key in WIDE if key not in large] == [], "take them off the list"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("class A:\n def __init__(self, a, b, c, d, e): ...", 5),
        ("class A:\n def __init__(self, a, /, b, c, *, d, e, f=1): ...", 6),
        ("class A:\n def __new__(cls, a, b, c, d, e, f): ...", 6),
        ("@dataclass\nclass A:\n a: int\n b: int\n c: Log", 1),
        ("@dataclass(frozen=True)\nclass A:\n a: int\n b: Log | None = None", 1),
        ("@dataclass\nclass A:\n a: int\n b: Log = field(init=False)\n c: 'Log'", 1),
        ("@dataclass\nclass A:\n a: int\n b: list[str]", 0),
        ("@dataclass\nclass A:\n a: Callable[[Log], None]\n b: ClassVar[Log]", 0),
        ("class A(msgspec.Struct):\n a: int\n b: int", 0),
        ("class A(msgspec.Struct, frozen=True):\n a: int\n b: Log", 1),
        ("class A: ...", 0),
    ],
)
def test_arguments_are_counted(source: str, expected: int) -> None:
    """All kinds of them; of a value what acts, and not what it knows."""
    classes = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.ClassDef)]
    assert [arguments(each, {"Log"}) for each in classes] == [expected]


def _found() -> list[Made]:
    classes = [
        (each, f"{name(path)}:{each.lineno}")
        for path in package_files()
        for each in nodes(path)
        if isinstance(each, ast.ClassDef)
    ]
    services = {each.name for each, _ in classes if _constructor(each) and not _is_error(each)}
    return [Made(each.name, place, arguments(each, services)) for each, place in classes]


def too_large(found: Iterable[Made]) -> Iterator[Made]:
    """Yield the classes that are given too much."""
    return (each for each in found if each.arguments > ARGUMENTS_MAX)


def arguments(cls: ast.ClassDef, services: set[str]) -> int:
    """Count what `__init__` takes, or of a value the fields that are services, not data."""
    made = _constructor(cls)
    if made is not None:
        every = made.args.posonlyargs + made.args.args + made.args.kwonlyargs
        return len(every) - 1
    marks = [ast.unparse(each) for each in (*cls.decorator_list, *cls.bases)]
    if not any("dataclass" in mark or mark == "msgspec.Struct" for mark in marks):
        return 0
    fields = [each for each in cls.body if isinstance(each, ast.AnnAssign) and _is_given(each)]
    return sum(_is_service(each.annotation, services) for each in fields)


def _constructor(cls: ast.ClassDef) -> ast.FunctionDef | None:
    for each in cls.body:
        if isinstance(each, ast.FunctionDef) and each.name in ("__init__", "__new__"):
            return each
    return None


def _is_error(cls: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith(("Error", "Exception")) for base in cls.bases)


def _is_given(each: ast.AnnAssign) -> bool:
    default = ast.unparse(each.value) if each.value is not None else ""
    return "init=False" not in default and not ast.unparse(each.annotation).startswith("ClassVar")


def _is_service(annotation: ast.expr, services: set[str]) -> bool:
    """Whether a field is of a class that has a constructor of its own, or None."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    parts = [part.strip() for part in ast.unparse(annotation).split("|")]
    return any(part in services for part in parts)
