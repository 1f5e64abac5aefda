"""The public names of a package: signatures, docstrings, fields."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from types import ModuleType
from typing import Any, Final

import msgspec

from deploy.documents.setting_comments import comments
from deploy.documents.tables import code, table

_HOMES: Final = re.compile(
    r"\b(?:aerobee|typing|collections\.abc|pathlib|datetime)(?:\.\w+)*\.(?=\w)"
)
_ADDRESS: Final = re.compile(r"<[^<>]* at 0x[0-9a-f]+>")
COLUMNS_MAX: Final = 90


def api(package: str) -> str:
    """Return the public names of a package; where it has few, those of its modules as well."""
    module = importlib.import_module(package)
    parts = [
        _definition(name, getattr(module, name)) for name in sorted(module.__all__, key=_order)
    ]
    if package == "aerobee.admin":
        for inner in pkgutil.iter_modules(module.__path__, f"{package}."):
            parts.append(_module(importlib.import_module(inner.name), set(module.__all__)))
    return "\n\n".join(filter(None, parts))


def public(package: str) -> set[str]:
    """Name what a page of `api` has at least."""
    return set(importlib.import_module(package).__all__)


def _order(name: str) -> tuple[bool, str]:
    return name[:1].islower(), name.lower()


def _module(module: ModuleType, told: set[str]) -> str:
    """Return what a module of `admin` defines for others, under its name."""
    names = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and name not in told
        if (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]
    if not names:
        return ""
    parts = [f"## {module.__name__}", _escaped(inspect.getdoc(module) or "")]
    parts += [_definition(name, getattr(module, name), marks="###") for name in names]
    return "\n\n".join(parts)


def _definition(name: str, value: Any, marks: str = "##") -> str:
    if inspect.isclass(value):
        return _class(name, value, marks)
    if inspect.isfunction(value):
        return f"{marks} {name}\n\n{_call(name, value)}\n\n{_said(value)}"
    said = _escaped(inspect.getdoc(type(value)) or "")
    text = _ADDRESS.sub("…", repr(value))
    return f"{marks} {name}\n\n```python\n{name} = {_short(text)}\n```\n\n{said}"


def _class(name: str, kind: type[Any], marks: str) -> str:
    parts = [f"{marks} {name}"]
    fields = _fields(kind)
    if not fields and not issubclass(kind, Enum | Exception) and "__init__" in vars(kind):
        parts.append(_call(name, kind))
    bases = [each.__name__ for each in kind.__bases__ if each is not object]
    if issubclass(kind, Exception):
        parts.append(f"An error; {code(bases[0])} is what it is made of.")
    parts.append(_said(kind))
    if issubclass(kind, Enum):
        rows = [(code(each.name), code(each.value)) for each in kind]
        parts.append(table(("value", "as"), rows))
    elif fields:
        parts.append(table(("field", "type", "default", ""), fields))
    parts += [_member(name, each, value) for each, value in _members(kind)]
    return "\n\n".join(filter(None, parts))


def _fields(kind: type[Any]) -> list[tuple[str, ...]]:
    """Return the fields of a value as rows, with the comments beside them."""
    said = comments(kind)
    rows = []
    if dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            if field.init and not field.name.startswith("_"):
                default = _default(field.default, field.default_factory, dataclasses.MISSING)
                rows.append((field.name, _type(field.type), default))
    elif issubclass(kind, msgspec.Struct):
        for each in msgspec.structs.fields(kind):
            default = _default(each.default, each.default_factory, msgspec.NODEFAULT)
            rows.append((each.name, _type(each.type), default))
    return [
        (
            code(name),
            code(kind_text),
            default,
            said[name].text.replace("<", "&lt;") if name in said else "",
        )
        for name, kind_text, default in rows
    ]


def _default(value: Any, factory: Any, missing: Any) -> str:
    if value is not missing:
        return code(_short(_ADDRESS.sub("…", repr(value))))
    return "made anew" if factory is not missing else "needed"


def _members(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that have a docstring, inherited ones of ours too."""
    seen: set[str] = set()
    for home in kind.__mro__:
        if not home.__module__.startswith("aerobee."):
            continue
        for name, value in vars(home).items():
            function = getattr(
                value, "__func__", getattr(value, "fget", getattr(value, "func", value))
            )
            known = inspect.isfunction(function)
            if name.startswith("_") or name in seen or not known:
                continue
            seen.add(name)
            if inspect.getdoc(function):
                yield name, value


def _member(owner: str, name: str, value: Any) -> str:
    title = f"#### {owner}.{name}"
    if isinstance(value, property | cached_property):
        function = value.fget if isinstance(value, property) else value.func
        kind = _type(getattr(function, "__annotations__", {}).get("return", ""))
        return f"{title}\n\nA property: {code(kind)}.\n\n{_said(function)}"
    function = getattr(value, "__func__", value)
    return f"{title}\n\n{_call(name, function)}\n\n{_said(function)}"


def _call(name: str, function: Any) -> str:
    """Return how something is called, a line for each argument where one line is too long."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""
    given = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    signature = signature.replace(parameters=given)
    target = getattr(function, "__func__", function)
    before = "async " if inspect.iscoroutinefunction(target) else ""
    text = _ADDRESS.sub("…", _HOMES.sub("", str(signature))).replace("'", '"')
    if len(before) + len(name) + len(text) > COLUMNS_MAX:
        inner, _, after = text[1:].rpartition(")")
        arguments = "".join(f"    {each},\n" for each in _split(inner))
        text = f"(\n{arguments}){after}"
    return f"```python\n{before}{name}{text}\n```"


def _split(arguments: str) -> Iterator[str]:
    """Yield arguments that are joined by commas, of which types have some, too."""
    depth, begin = 0, 0
    for at, letter in enumerate(arguments):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            yield arguments[begin:at].strip()
            begin = at + 1
    yield arguments[begin:].strip()


def _type(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _HOMES.sub("", text)


def _said(value: Any) -> str:
    return _escaped(inspect.getdoc(value) or "")


def _escaped(docstring: str) -> str:
    """Return a docstring as Markdown: what looks like HTML outside code is text."""
    lines = []
    for line in docstring.splitlines():
        parts = line.split("`")
        if not line.startswith("    "):
            line = "`".join(p if n % 2 else p.replace("<", "&lt;") for n, p in enumerate(parts))
        lines.append(line)
    return "\n".join(lines)


def _short(text: str) -> str:
    return text if len(text) <= COLUMNS_MAX else f"{text[:COLUMNS_MAX]}…"
