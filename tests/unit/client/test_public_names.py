"""What `aerobee.client` offers: loaded late, and known to checkers and completion all the same."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import aerobee.client as public


def test_checkers_see_what_is_loaded() -> None:
    """The imports that only type checkers read are the homes that names are loaded from."""
    assert public.__file__ is not None
    tree = ast.parse(Path(public.__file__).read_text())
    (checked,) = (node for node in tree.body if isinstance(node, ast.If) and not _negated(node))
    read = {
        alias.name: node.module
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert read == public._HOME_OF
    assert sorted(read) == sorted(public.__all__)


def test_every_name_is_what_its_home_has() -> None:
    """And stays: the second use asks nobody."""
    for name, home in public._HOME_OF.items():
        assert getattr(public, name) is getattr(import_module(home), name)
        assert vars(public)[name] is getattr(public, name)


def test_what_is_no_name_is_an_error() -> None:
    """A misspelling is told as of any module; completion shows public names alone."""
    with pytest.raises(AttributeError, match="has no attribute 'Producr'"):
        _ = public.Producr  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'Producr'"):
        from aerobee.client import Producr  # type: ignore[attr-defined]  # noqa: F401
    assert dir(public) == sorted(public.__all__)


def _negated(node: ast.If) -> bool:
    return isinstance(node.test, ast.UnaryOp)
