"""An environment that has some of our extras: links to what is installed here, nothing copied."""

import os
import re
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from aerobee.remoting.extras import SERVER
from support.runs.source_tree import PACKAGE, ROOT, client_packages, project, server_packages


@cache
def required(extra: str = "") -> frozenset[str]:
    """Name the distributions that `aerobee[extra]` asks for by itself, its extras resolved."""
    table = project()["project"]
    lines = table["optional-dependencies"][extra] if extra else table["dependencies"]
    found: set[str] = set()
    for requirement in map(Requirement, lines):
        if requirement.name == "aerobee":
            found = found.union(*map(required, requirement.extras))
        else:
            found.add(canonical(requirement.name))
    return frozenset(found)


def closure(names: frozenset[str]) -> frozenset[str]:
    """Add what those need themselves, as their own metadata says; what is not here is left out."""
    found, left = set[str](), set(names)
    while left:
        name = left.pop()
        found.add(name)
        try:
            lines = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        for requirement in map(Requirement, lines):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                left |= {canonical(requirement.name)} - found
    return frozenset(found)


def canonical(name: str) -> str:
    """Spell a distribution's name in the one way that compares."""
    return re.sub(r"[-_.]+", "-", name).lower()


def top_levels(name: str) -> set[str]:
    """Name the files and folders of site-packages that a distribution has, if it is installed."""
    try:
        files = metadata.files(name) or []
    except metadata.PackageNotFoundError:
        return set()
    return {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}


def link_folders(package: Path, folders: tuple[str, ...]) -> None:
    """Have a package the folders of a distribution."""
    for name in folders:
        (package / name).symlink_to(ROOT / name)


def link_packages(folder: Path, names: frozenset[str]) -> None:
    """Have a folder what is installed here of some distributions, and of what they need."""
    site = Path(str(metadata.distribution("msgspec").locate_file("")))
    for top in set().union(*map(top_levels, closure(names))):
        (folder / top).symlink_to(site / top)


class PartialInstall:
    """A folder for PYTHONPATH that has Aerobee, msgspec, isal and what some extras install.

    The servers are there if an extra brings them, or by themselves (`server`). `others` are
    distributions beside it, as pytest is in somebody's project.
    """

    def __init__(
        self, folder: Path, *extras: str, server: bool = False, others: tuple[str, ...] = ()
    ) -> None:
        self.folder = folder
        package = folder / "aerobee"
        package.mkdir(parents=True, exist_ok=True)
        names = required().union(*map(required, extras), others)
        link_packages(folder, names - {SERVER})
        for beside in PACKAGE.iterdir():
            (package / beside.name).symlink_to(beside)
        link_folders(package, client_packages())
        if server or SERVER in names:
            link_folders(package, server_packages())
        site = Path(str(metadata.distribution("msgspec").locate_file("")))
        for info in site.glob("aerobee-*.dist-info"):
            (folder / info.name).symlink_to(info)

    def run(
        self, *arguments: str, cwd: Path | None = None, **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run this Python there, with no other packages than the folder's."""
        return subprocess.run(
            [sys.executable, "-S", *arguments],
            env={**os.environ, "PYTHONPATH": str(self.folder), **environment},
            cwd=cwd or self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
