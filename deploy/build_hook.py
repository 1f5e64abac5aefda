"""Build hook: links for an editable install, and compiled code where that is possible.

Two distributions are made of one tree, each of its own folders: `aerobee` of those that its
`pyproject.toml` includes, `aerobee-server` of the `folders` that `deploy/server/pyproject.toml`
gives to this hook. A build never fails for want of a compiler: then the wheel is a pure one, and
everything is done in Python. `AEROBEE_COMPILE=0` asks for that, `AEROBEE_COMPILE=1` makes a failure
an error.
"""

import json
import os
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILED: Final = (
    "broker/compiled/plain_sends.pyx",
    "broker/compiled/record_runs.pyx",
    "client/compiled/lane.pyx",
    "client/compiled/records.pyx",
    "spark/compiled/record_loops.pyx",
    "storage/compiled/index_slices.pyx",
)

PACKAGE: Final = "deploy/package"
"""What lies beside the folders in the package: its name for itself, and `python -m aerobee`."""

SERVER: Final = "deploy/server/pyproject.toml"
INSTALLED: Final = (".md", ".py", ".pyi", ".typed")
SOURCES: Final = (*INSTALLED, ".pxi", ".pyx")
BUILT_WITH: Final = ("LICENSE", "deploy/build_hook.py", "remoting/message/check_sum.pxi")
"""What the server's source distribution needs beside its folders; the other is the whole tree."""


class BuildSteps(BuildHookInterface[Any]):
    """Prepares a wheel; an editable one is links to the folders, with compiled code in place."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make what this kind of build needs."""
        root = Path(self.root)
        # the server's own project lies two folders below the tree, but for its source distribution
        self._tree = root if Path(root, BUILT_WITH[1]).exists() else root.parents[1]
        server: list[str] = self.config.get("folders", [])
        if self.target_name == "sdist":
            if self._tree != root:
                names = [*files_below(self._tree, server, SOURCES), *BUILT_WITH]
                build_data["force_include"].update(self._places(names))
            return
        editable = version == "editable"
        folders = server or [*self.build_config.only_include.values()]
        if editable:
            if not server:  # of a checkout `aerobee` is all that there is
                folders += server_folders(self._tree)
            self._link(folders, with_package=not server)
        elif server:
            build_data["force_include"].update(
                self._places(files_below(self._tree, server, INSTALLED))
            )
        else:
            for source in Path(self._tree, PACKAGE).rglob("*.py"):
                name = source.relative_to(self._tree / PACKAGE).as_posix()
                build_data["force_include"][str(source)] = name
        self._compile(folders, editable, build_data)

    def _compile(self, folders: list[str], editable: bool, build_data: dict[str, Any]) -> None:
        """Compile what these folders have, and write down whether that could be done."""
        sources = [source for source in COMPILED if source.partition("/")[0] in folders]
        if editable:
            for source in sources:  # never leave what was made of an older source
                for product in self._tree.glob(f"{Path(source).with_suffix('')}.*.[sp][oy]*"):
                    if product.suffix in (".so", ".pyd"):
                        product.unlink()
        wanted = os.environ.get("AEROBEE_COMPILE", "")
        self._folder = tempfile.TemporaryDirectory(prefix="aerobee-build-")
        if wanted == "0":
            self._tell(build_data, [], "AEROBEE_COMPILE=0 was set when it was built")
            return
        try:
            products = compiled(self._tree, sources, Path(self._folder.name), stripped=not editable)
        except Exception as error:  # whatever is missing or wrong, there is another way
            if wanted == "1":
                raise
            self.app.display_warning(f"not compiled, Python does the same more slowly: {error}")
            self._tell(build_data, [], reason(error))
            return
        self._tell(build_data, [module_name(source) for source in products])
        for source, product in products.items():
            name = f"{Path(source).parent.as_posix()}/{product.name}"
            if editable:
                replace(product, Path(self._tree, name))
            else:
                build_data["force_include"][str(product)] = name
        if not editable:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def _tell(self, build_data: dict[str, Any], modules: list[str], why: str = "") -> None:
        """Write down what was compiled, or why not, where `remoting/config/built.py` reads it."""
        note = Path(self._folder.name, "build.json")
        note.write_text(json.dumps({"compiled": modules, "why": why}))
        build_data["extra_metadata"][str(note)] = note.name

    def _places(self, names: Iterable[str]) -> dict[str, str]:
        """Say of files of the tree that they stand at the same place in what is built."""
        return {str(self._tree / name): name for name in names}

    def _link(self, folders: list[str], *, with_package: bool) -> None:
        """Link `.dev/aerobee/<name>` to `<name>/`, so that the folders are one package."""
        package_dir = Path(self._tree, ".dev", "aerobee")
        package_dir.mkdir(parents=True, exist_ok=True)
        for name in folders:
            link = package_dir / name
            if not link.is_symlink():
                link.symlink_to(Path("..", "..", name), target_is_directory=True)
        for source in Path(self._tree, PACKAGE).glob("*.py") if with_package else ():
            link = package_dir / source.name
            if not link.is_symlink():
                link.symlink_to(Path("..", "..", PACKAGE, source.name))


def server_folders(tree: Path) -> list[str]:
    """Name the folders that `aerobee-server` has."""
    build = tomllib.loads(Path(tree, SERVER).read_text())["tool"]["hatch"]["build"]
    return [str(name) for name in build["hooks"]["custom"]["folders"]]


def files_below(tree: Path, folders: Iterable[str], suffixes: tuple[str, ...]) -> Iterator[str]:
    """Name the files of these kinds below some folders of the tree."""
    for folder in folders:
        for path in sorted(Path(tree, folder).rglob("*")):
            if path.suffix in suffixes:
                yield path.relative_to(tree).as_posix()


def compiled(root: Path, sources: list[str], folder: Path, *, stripped: bool) -> dict[str, Path]:
    """Compile into `folder`; return each source with its product. Any error: it cannot be done.

    A wheel's are `stripped` of what only profilers and debuggers read, a seventh of their size.
    """
    if sys.implementation.name != "cpython":
        raise RuntimeError(f"not of use to {sys.implementation.name}")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):  # to load it would switch the lock on for all
        raise RuntimeError("not of use to free-threaded Python, whose threads it would hold up")
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    flags = ["-O3", "-g0"] if os.name == "posix" else []
    extensions = [
        Extension(
            module_name(source),
            [str(root / source)],
            extra_compile_args=flags,
            extra_link_args=["-Wl,-s"] if stripped and sys.platform == "linux" else [],
        )
        for source in sources
    ]
    command = build_ext(
        Distribution({"ext_modules": cythonize(extensions, build_dir=str(folder), quiet=True)})
    )
    command.build_lib, command.build_temp = str(folder / "lib"), str(folder / "objects")
    command.ensure_finalized()
    command.run()
    return {
        source: Path(command.get_ext_fullpath(extension.name))
        for source, extension in zip(sources, extensions, strict=True)
    }


def reason(error: Exception) -> str:
    """Say in a few words why there is no compiled code; the log of the build has the rest."""
    if isinstance(error, RuntimeError):
        return f"compiled code is {error}"
    if "No such file or directory" in str(error) or isinstance(error, FileNotFoundError):
        return "no compiler found when it was built"
    return f"it could not be compiled when it was built: {' '.join(str(error).split())[:200]}"


def module_name(source: str) -> str:
    """Return the import name of a source."""
    return ".".join(("aerobee", *Path(source).with_suffix("").parts))


def replace(product: Path, target: Path) -> None:
    """Put a product in its place at once: a running process goes on with the file that it has."""
    beside = target.with_name(f"{target.name}.new")
    beside.write_bytes(product.read_bytes())
    beside.replace(target)
