"""The project's own files as the house rules see them."""

import ast
import gc
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "deploy" / "package"  # what lies beside the folders in the installed package


@cache
def project() -> dict[str, Any]:
    """Return `pyproject.toml` as a value."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@cache
def server_project() -> dict[str, Any]:
    """Return the `pyproject.toml` of the distribution that extras bring."""
    return tomllib.loads((ROOT / "deploy" / "server" / "pyproject.toml").read_text())


@cache
def client_packages() -> tuple[str, ...]:
    """Name the top-level folders that the wheel of `aerobee` carries."""
    return tuple(project()["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"])


@cache
def server_packages() -> tuple[str, ...]:
    """Name those that the wheel of `aerobee-server` carries."""
    return tuple(server_project()["tool"]["hatch"]["build"]["hooks"]["custom"]["folders"])


@cache
def packages() -> tuple[str, ...]:
    """Name the top-level folders of the installed package."""
    return client_packages() + server_packages()


@cache
def committed_files() -> tuple[Path, ...]:
    """List what a clone would hold: tracked files and those about to be."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    names = (name for name in listed.stdout.split("\0") if name)
    return tuple(path for name in sorted(set(names)) if (path := ROOT / name).is_file())


@cache
def python_files() -> tuple[Path, ...]:
    """List every Python file of a clone."""
    return tuple(path for path in committed_files() if path.suffix == ".py")


@cache
def compiled_files() -> tuple[Path, ...]:
    """List the sources that are compiled."""
    return tuple(path for path in committed_files() if path.suffix in (".pyx", ".pxi", ".pxd"))


@cache
def package_files() -> tuple[Path, ...]:
    """List the Python files that are installed with the package."""
    return tuple(path for path in python_files() if path.relative_to(ROOT).parts[0] in packages())


@cache
def text(path: Path) -> str:
    """Read one file."""
    return path.read_text()


@cache
def tree(path: Path) -> ast.Module:
    """Parse one file."""
    gc.disable()  # millions of nodes, none of which ever is garbage
    try:
        return ast.parse(text(path), str(path))
    finally:
        gc.freeze()
        gc.enable()


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """List all that `tree` holds, walked once for every rule that looks at each node."""
    found: list[ast.AST] = [tree(path)]
    for node in found:  # which grows meanwhile
        for value in node.__dict__.values():
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [each for each in value if isinstance(each, ast.AST)]
    return tuple(found)


def name(path: Path) -> str:
    """Return the path as the rules and their exemptions write it: `broker/app.py`."""
    return path.relative_to(ROOT).as_posix()


def module(path: Path) -> str:
    """Return the import name of a package file: `aerobee.broker.app`."""
    parts = ["aerobee", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(path: Path) -> frozenset[str]:
    """Name every module that a file imports, anywhere in it, and each name as a submodule too."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)
