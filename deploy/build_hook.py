"""Build hook: links for an editable install, and compiled code where that is possible.

A build never fails for want of a compiler: then the wheel is a pure one, and everything is done in
Python. `AEROBEE_COMPILE=0` asks for that, `AEROBEE_COMPILE=1` makes a failure an error.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILED: Final = (
    "broker/compiled/plain_sends.pyx",
    "broker/compiled/record_runs.pyx",
    "client/compiled/records.pyx",
    "spark/compiled/record_loops.pyx",
    "storage/compiled/index_slices.pyx",
)


class BuildSteps(BuildHookInterface[Any]):
    """Prepares a wheel; an editable one is links to the folders, with compiled code in place."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make what this kind of build needs."""
        editable = version == "editable"
        if editable:
            self._link()
            for source in COMPILED:  # never leave what was made of an older source
                for product in Path(self.root).glob(f"{Path(source).with_suffix('')}.*.[sp][oy]*"):
                    if product.suffix in (".so", ".pyd"):
                        product.unlink()
        wanted = os.environ.get("AEROBEE_COMPILE", "")
        if wanted == "0":
            return
        self._folder = tempfile.TemporaryDirectory(prefix="aerobee-build-")
        try:
            products = compiled(Path(self.root), Path(self._folder.name))
        except Exception as error:  # whatever is missing or wrong, there is another way
            if wanted == "1":
                raise
            self.app.display_warning(f"not compiled, Python does the same more slowly: {error}")
            return
        for source, product in products.items():
            name = f"{Path(source).parent.as_posix()}/{product.name}"
            if editable:
                replace(product, Path(self.root, name))
            else:
                build_data["force_include"][str(product)] = name
        if not editable:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def _link(self) -> None:
        """Link `.dev/aerobee/<name>` to `<name>/`, so that the flat folders are one package."""
        package_dir = Path(self.root, ".dev", "aerobee")
        package_dir.mkdir(parents=True, exist_ok=True)
        for name in self.build_config.only_include.values():
            link = package_dir / name
            if not link.is_symlink():
                link.symlink_to(Path("..", "..", name), target_is_directory=True)


def compiled(root: Path, folder: Path) -> dict[str, Path]:
    """Compile into `folder`; return each source with its product. Any error: it cannot be done."""
    if sys.implementation.name != "cpython":
        raise RuntimeError(f"not of use to {sys.implementation.name}")
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    flags = ["-O3", "-g0"] if os.name == "posix" else []
    extensions = [
        Extension(module_name(source), [str(root / source)], extra_compile_args=flags)
        for source in COMPILED
    ]
    command = build_ext(
        Distribution({"ext_modules": cythonize(extensions, build_dir=str(folder), quiet=True)})
    )
    command.build_lib, command.build_temp = str(folder / "lib"), str(folder / "objects")
    command.ensure_finalized()
    command.run()
    return {
        source: Path(command.get_ext_fullpath(extension.name))
        for source, extension in zip(COMPILED, extensions, strict=True)
    }


def module_name(source: str) -> str:
    """Return the import name of a source."""
    return ".".join(("aerobee", *Path(source).with_suffix("").parts))


def replace(product: Path, target: Path) -> None:
    """Put a product in its place at once: a running process goes on with the file that it has."""
    beside = target.with_name(f"{target.name}.new")
    beside.write_bytes(product.read_bytes())
    beside.replace(target)
