"""What must not stand in the source: unfinished work, registries, sockets in codecs, dead files."""

import re
from urllib.parse import urlsplit

from support.runs.source_tree import (
    ROOT,
    committed_files,
    imports,
    module,
    name,
    package_files,
    python_files,
    text,
)

IO_MODULES = {"asyncio", "selectors", "socket", "socketserver", "ssl", "uvloop"}

ENTRY_MODULES = {
    "aerobee.cli.entry": "console scripts",
    "aerobee.testing.plugin": "pytest's entry point",
    "aerobee.integrations.django.apps": "found by Django",
    "aerobee.integrations.django.management.commands.consume": "found by Django",
    "aerobee.broker.processors.unserved": "a list that a test holds against what is served",
    "aerobee.namesrv.unserved": "a list that a test holds against what is served",
}

# Hosts that documents and formats name; whoever installs has a registry of his own choice, so
# none may stand here, in lock files least of all.
HOSTS = re.compile(
    r"(localhost|127\.0\.0\.1|\[::1\]|broker|namesrv|prometheus|json-schema\.org"
    r"|(www|rocketmq|maven|spark)\.apache\.org|www\.w3\.org|github\.com|docs\.docker\.com"
    r"|prometheus\.io)(:\d+)?"
)
# ... and files that are others', or a reader's own.
ELSEWHERE = {
    "aerobee/cli/main.py", "hello.py", "pyspark/daemon.py", "runbroker.sh",
    "SPARK_HOME/sbin/start-master.sh", "SPARK_HOME/sbin/start-worker.sh", "start-master.sh",
    "test_count_messages.py", "manage.py", "shop/settings.py", "shop/models.py", "shop/urls.py",
    "shop/handlers.py",
    # programs that a page of docs/ has its reader write
    "send.py", "reader.py", "steps.py", "later.py", "place.py", "fragile.py", "test_orders.py",
}  # fmt: skip
NAMED = re.compile(r"(?<![\w./*{<%-])((?:\w[\w-]*/)*\w[\w-]*\.(?:py|md|pyx|pxi|sh))(?![\w/])")
URL = re.compile(r"\bhttps?://[^\s\"'`<>)\\]+")


def test_nothing_is_left_for_later() -> None:
    """Work that is not done is not marked in the source."""
    marks = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
    found = [
        f"{name(path)}:{number}"
        for path in python_files()
        for number, line in enumerate(text(path).splitlines(), 1)
        if marks.search(line)
    ]
    assert not found


def test_no_file_names_a_registry() -> None:
    """Every web address in the project belongs to a document or a format, not to a mirror."""
    found = []
    for path in committed_files():
        content = path.read_bytes().decode("utf-8", "ignore")
        for match in URL.finditer(content):
            if not HOSTS.fullmatch(urlsplit(match[0]).netloc):
                found.append(f"{name(path)}: {match[0]}")
    assert not found


def test_codecs_know_no_sockets() -> None:
    """In remoting, input and output live under net/ alone."""
    found = {
        name(path): sorted(used)
        for path in package_files()
        if name(path).startswith("remoting/") and not name(path).startswith("remoting/net/")
        if (used := {found.split(".")[0] for found in imports(path)} & IO_MODULES)
    }
    assert not found


def test_imports_are_absolute_and_through_the_package() -> None:
    """`import broker` works from the root and yields a second copy of each class: nobody does."""
    folders = {name(path).split("/")[0] for path in package_files()}
    found = [
        f"{name(path)}: {used}"
        for path in python_files()
        for used in imports(path)
        if used.split(".")[0] in folders
    ]
    assert not found


def test_no_module_is_dead() -> None:
    """Each module is imported by another one, run by its name, or listed as an entry."""
    used = set().union(*(imports(path) for path in python_files() if _is_user(name(path))))
    dead = [
        name(path)
        for path in package_files()
        if path.name not in ("__init__.py", "__main__.py")
        if module(path) not in used | ENTRY_MODULES.keys() and not _is_run(module(path))
    ]
    assert not dead


def _is_user(file: str) -> bool:
    """Whether an import in this file makes a module alive: its own tests do not."""
    return not file.startswith(("tests/unit/", "tests/property/"))


def _is_run(module_name: str) -> bool:
    """Whether a file of the package starts or imports it by name, or a document tells how."""
    return any(
        f"-m {module_name}" in content
        or f'"{module_name}"' in content
        or f"from {module_name} import" in content
        for content in (
            text(path)
            for path in committed_files()
            if path.suffix in (".py", ".md") and "tests" not in path.relative_to(ROOT).parts
        )
    )


def test_every_file_that_is_named_exists() -> None:
    """A name in a text that leads nowhere was a file once; tests have names to invent."""
    files = {name(path) for path in committed_files()}
    last = {each.rpartition("/")[2] for each in files}
    found = []
    for path in committed_files():
        where = name(path)
        if path.suffix not in (".md", ".py", ".pyx", ".pxi") or where.startswith("tests/"):
            continue
        for number, line in enumerate(text(path).splitlines(), 1):
            for named in NAMED.findall(line):
                folders = [path.parent, *path.parent.parents]
                above = folders[: folders.index(ROOT) + 1]
                known = named in last or any(name(folder / named) in files for folder in above)
                if not known and named not in ELSEWHERE:
                    found.append(f"{where}:{number}: {named}")
    assert not found
