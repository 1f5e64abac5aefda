"""Everything public, and every test, says what it is for."""

import ast
from collections.abc import Iterator

from support.runs.source_tree import name, package_files, python_files, tree


def _public(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield the public classes, functions and methods below a body, but no nested functions."""
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            yield from _public(node.body, prefix)
            yield from _public(node.orelse, prefix)
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("_") or _is_repeated(node):
            continue
        yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from _public(node.body, f"{prefix}{node.name}.")


def _is_repeated(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the name is documented elsewhere: an overload, a setter, an override."""
    marks = {ast.unparse(decorator).split(".")[-1] for decorator in node.decorator_list}
    return bool(marks & {"overload", "setter", "override"})


def _has_docstring(node: ast.AST) -> bool:
    """Whether the definition opens with a string."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return isinstance(node, documented) and bool(ast.get_docstring(node))


def test_public_names_are_documented() -> None:
    """Each public module, class, function and method of the package has a docstring."""
    missing = [
        f"{name(path)}::{public}"
        for path in package_files()
        for public, node in _public(tree(path).body)
        if not _has_docstring(node)
    ]
    missing += [
        name(path) for path in package_files() if tree(path).body and not _has_docstring(tree(path))
    ]
    assert not missing


def test_tests_say_what_they_prove() -> None:
    """Each test function and each module of tests or benchmarks has a docstring."""
    missing = []
    for path in python_files():
        if name(path).split("/")[0] not in ("tests", "benchmarks", "deploy"):
            continue
        if tree(path).body and not _has_docstring(tree(path)):
            missing.append(name(path))
        missing += [
            f"{name(path)}::{public}"
            for public, node in _public(tree(path).body)
            if public.split(".")[-1].startswith("test_") and not _has_docstring(node)
        ]
    assert not missing
