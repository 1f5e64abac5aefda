"""What is defined in the product is used by the product, or is its interface."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from support.runs.source_tree import compiled_files, name, nodes, package_files, text, tree

WORD = re.compile(r"[A-Za-z_]\w*")

# Whoever has one of these as a base is called by a library, by names that the library chose.
CALLED_BY_LIBRARIES = {
    "DataSource", "DataSourceStreamReader", "QueueHandler", "RotatingFileHandler",
    "asyncio.BufferedProtocol",
    "asyncio.Protocol", "click.Group", "virtual.Channel", "virtual.QoS",
}  # fmt: skip

EXEMPT = {
    "Handovers.is_empty": "tests hold with it that nothing of a group is left behind",
    "HARMLESS": "the settings of RocketMQ that change nothing here: a test holds the list complete",
    "NAMESRV_CODES": "a list that a test holds against what is served",
    "SERVED_BY_CONNECTION": "a list that a test holds against what is served",
    "SoonProducer.send_soon": "a method of Producer, which has it as its base",
    "UNSERVED": "a list that a test holds against what is served",
    "encode_record": "the other half of decode_record: tests hold the layout by both",
    "iter_records": "the records of a pull reply: documents and whoever embeds a broker read by it",
    "Allocator.helper_pid": "tests end the helper with it",
}


def test_every_definition_is_used() -> None:
    """Functions, classes, constants and methods that no module of the product names are dead.

    Exempt are the methods of classes that a package exports (`__all__`), what an adapter exports,
    what a decorator with arguments registers, and what is listed above. Where two have one name,
    both count as used.
    """
    used, exported = _used(), _exported()
    dead = [
        f"{name(path)}:{line} {qualified}"
        for path in package_files()
        for qualified, own, line in _definitions(path, exported)
        if own not in used | _interface(path) and qualified not in EXEMPT
    ]
    assert not dead, "\n".join(dead)


def _used() -> set[str]:
    """Every name that product code reads, calls by keyword, or has in a text."""
    used = {word for path in compiled_files() for word in WORD.findall(text(path))}
    for path in package_files():
        documents = {id(node) for node in _documents(path)}
        for node in nodes(path):
            match node:
                case ast.Name(id=word, ctx=ast.Load()) | ast.Attribute(attr=word, ctx=ast.Load()):
                    used.add(word)
                case ast.keyword(arg=str(word)):
                    used.add(word)
                case ast.Constant(value=str(words)) if id(node) not in documents:
                    used.update(WORD.findall(words))
    return used


def _exported() -> set[str]:
    """Every name in an `__all__`."""
    return set().union(*map(_exports, package_files()))


def _exports(path: Path) -> set[str]:
    """Every name in the `__all__` of a module."""
    return {
        element.value
        for node in tree(path).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for element in ast.walk(node.value)
        if isinstance(element, ast.Constant) and isinstance(element.value, str)
    }


def _interface(path: Path) -> set[str]:
    """What programs import from a module itself: no package can, for it needs a framework."""
    return _exports(path) if name(path).startswith("integrations/") else set()


def _definitions(path: Path, exported: set[str]) -> Iterator[tuple[str, str, int]]:
    """Yield what a module defines: qualified name, name, line."""
    for function in _functions(tree(path)):
        yield function.name, function.name, function.lineno
    for node in tree(path).body:
        match node:
            case ast.ClassDef():
                yield node.name, node.name, node.lineno
                bases = {ast.unparse(base) for base in node.bases}
                if node.name not in exported and not bases & CALLED_BY_LIBRARIES:
                    for method in _functions(node):
                        yield f"{node.name}.{method.name}", method.name, method.lineno
            case ast.Assign(targets=[ast.Name(id=own)]) | ast.AnnAssign(target=ast.Name(id=own)):
                if not own.startswith("__"):
                    yield own, own, node.lineno


def _functions(node: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield those that have to be found by their names."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            registered = any(isinstance(one, ast.Call) for one in each.decorator_list)
            if not registered and not each.name.startswith("__"):
                yield each


def _documents(path: Path) -> Iterator[ast.AST]:
    """Yield the docstrings of a module, and the texts that stand by themselves."""
    for node in nodes(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
