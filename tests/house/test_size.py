"""Files and functions stay small enough to be read in one go."""

import ast

from support.runs.source_tree import ROOT, compiled_files, name, nodes, python_files, text

LINE_COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 60
MODULE_LINES_MAX = 400

MODULES_EXEMPT: dict[str, str] = {}
FUNCTIONS_EXEMPT: dict[str, str] = {}


def test_lines_fit_a_side_by_side_view() -> None:
    """No line of Python, compiled or not, is wider than the limit."""
    wide = [
        f"{name(path)}:{number}"
        for path in (*python_files(), *compiled_files())
        for number, line in enumerate(text(path).splitlines(), 1)
        if len(line) > LINE_COLUMNS_MAX
    ]
    assert not wide


def test_modules_hold_one_concept() -> None:
    """A module over the limit is two modules, unless it is a table and says so here."""
    lengths = {
        name(path): len(text(path).splitlines()) for path in (*python_files(), *compiled_files())
    }
    long = {n: lines for n, lines in lengths.items() if lines > MODULE_LINES_MAX}
    assert not long.keys() - MODULES_EXEMPT.keys(), long


def test_functions_fit_a_screen() -> None:
    """A function over the limit does several things, unless it is named here with a reason."""
    long = {
        f"{name(path)}::{node.name}": length
        for path in python_files()
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (length := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
    }
    assert not long.keys() - FUNCTIONS_EXEMPT.keys(), long


def test_exemptions_are_needed() -> None:
    """A file that shrank or went leaves the list."""
    for exempt in MODULES_EXEMPT:
        assert len((ROOT / exempt).read_text().splitlines()) > MODULE_LINES_MAX, exempt
