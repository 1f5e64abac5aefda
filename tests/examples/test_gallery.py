"""The programs of examples/ do what their first sentence says, against a cluster of their own."""

import ast
import asyncio
import importlib.util
import json
import os
import random
import re
import select
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from starlette.testclient import TestClient
from support.runs.source_tree import ROOT
from support.waiting import until

from aerobee.testing import ClusterThread

EXAMPLES: Final = ROOT / "examples"
LINES_MAX: Final = 59
TIMEOUT_S: Final = 60
KILLS: Final = 5
TRANSFERS: Final = 3_000
BATCHES: Final = 8  # before a kill, of 32 at most: some are left for the last one


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    """Give the address of a cluster that knows none of the topics, and recalls messages."""
    with ClusterThread(broker_settings={"recall_message_enable": True}) as cluster:
        yield cluster.namesrv_addr


def start(namesrv: str, program: str, *words: str) -> subprocess.Popen[str]:
    """Start a program of the gallery as its first lines say."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(EXAMPLES / program), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"NAMESRV_ADDR": namesrv},
    )


def run(namesrv: str, program: str, *words: str) -> list[str]:
    """Run a program that ends by itself; return what it prints, complaints and all."""
    with start(namesrv, program, *words) as child:
        try:
            printed, _ = child.communicate(timeout=TIMEOUT_S)
        finally:
            child.kill()
    assert child.returncode == 0, printed
    return printed.splitlines()


def load(name: str) -> ModuleType:
    """Import a program of the gallery anew."""
    spec = importlib.util.spec_from_file_location(f"gallery_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_has_each_program() -> None:
    """And each says in its first sentence what it shows, then how to run it, in a few lines."""
    listed = re.findall(
        r"^\| \[`(\w+\.\w+)`\]\(\1\)", (EXAMPLES / "README.md").read_text(), re.MULTILINE
    )
    programs = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert sorted(listed) == sorted(programs) and len(programs) == 10
    for program in EXAMPLES.glob("*.py"):
        text = program.read_text()
        assert len(text.splitlines()) <= LINES_MAX, program.name
        first, _, how = (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")
        assert re.fullmatch(r"[A-Z][^.]+\.", first), program.name
        assert how.startswith("Run it beside a nameserver and a broker"), program.name
        assert program.name in how or f"{program.stem}:app" in how or "`... book" in how


def test_work_queue(namesrv: str) -> None:
    """Each job is done by one worker, once, and the one that failed later; all three take part."""
    printed = run(namesrv, "work_queue.py")
    did = [
        found.groups() for line in printed if (found := re.match(r"  (\w+) did job (\d+)", line))
    ]
    assert sorted(int(job) for _, job in did) == list(range(40))
    failed = next(at for at, line in enumerate(printed) if "failed at job 7" in line)
    assert failed < next(at for at, line in enumerate(printed) if line.endswith("did job 7"))
    shares = Counter(who for who, _ in did)
    assert len(shares) > 1
    assert printed[-1].endswith(", ".join(f"{who} {n}" for who, n in sorted(shares.items())))


def test_ordered_per_key(namesrv: str) -> None:
    """The steps of each order are printed in their order, those that waited for a failure, too."""
    printed = run(namesrv, "ordered_per_key.py")
    steps: dict[str, list[str]] = {}
    for line in printed:
        if found := re.fullmatch(r"  (order-\d) (\w+)", line):
            steps.setdefault(found[1], []).append(found[2])
    expected = ["placed", "paid", "packed", "shipped"]
    assert steps == {f"order-{number}": expected for number in range(1, 7)}
    assert sum("could not be paid" in line for line in printed) == 1
    assert printed[-6:] == [f"{order}: {' > '.join(steps[order])}" for order in sorted(steps)]


def test_request_reply(namesrv: str) -> None:
    """Two answers, a refusal with its reason, and a silence that is told."""
    assert run(namesrv, "request_reply.py")[-4:] == [
        "apples   3.20",
        "pears    4.10",
        "stones   refused, we have no stones",
        "durians  no answer in time",
    ]


def test_delayed_job(namesrv: str) -> None:
    """The cat's comes before the shop's, neither early; what was called back never comes."""
    printed = run(namesrv, "delayed_job.py")
    assert printed[1] == "  the dunning letter was called back"
    late = [re.fullmatch(r"  (.+): \+(\d+) ms from its time", line) for line in printed[2:]]
    assert [each and each[1] for each in late] == ["feed the cat", "close the shop"], printed


def test_delayed_job_where_nothing_is_called_back() -> None:
    """A broker that does not recall says so, and the letter goes out."""
    with ClusterThread() as cluster:
        printed = run(cluster.namesrv_addr, "delayed_job.py")
    assert printed[1].startswith("  this broker calls nothing back: ")
    arrived = [line.partition(":")[0].strip() for line in printed[2:]]
    assert sorted(arrived[:2]) == ["dun the customer", "feed the cat"]
    assert arrived[2:] == ["close the shop"]


def test_fan_out(namesrv: str) -> None:
    """Each group has what its tags select, whole."""
    assert sorted(run(namesrv, "fan_out.py")[1:]) == [
        "  accounting (*) got bread, cake, chair, lamp, tea",
        "  garden     (plants || home) got chair, lamp",
        "  kitchen    (food) got bread, cake, tea",
        "  warehouse  (*) got bread, cake, chair, lamp, tea",
    ]


def test_replay(namesrv: str) -> None:
    """The same values twice, then those since a time; a second run finds those of the first."""
    ten = list(range(10, 20))
    for runs in (1, 2):
        assert run(namesrv, "replay.py") == [
            f"of this run: {ten}",
            f"of this run, again: {ten}",
            f"of its second half: {ten[5:]}",
            f"of all runs: {10 * runs} values",
        ]


def test_dlq_clinic(namesrv: str) -> None:
    """What could not be read becomes a dead letter at once, and is booked once it is cured."""
    first, *letters, last = run(namesrv, "dlq_clinic.py")
    assert first == "booked 5500 cents; 2 payments could not be read"
    assert sorted(letters) == [
        "  dead letter of payments: '42 Euro', cured: 4200 cents",
        "  dead letter of payments: '7 Euro', cured: 700 cents",
    ]
    assert last == "booked 10400 cents of 4 payments"


@pytest.fixture
def own_namesrv() -> Iterator[str]:
    """Give the address of a cluster in which nobody has sent anything."""
    with ClusterThread() as cluster:
        yield cluster.namesrv_addr


def test_exactly_once_sqlite(own_namesrv: str, tmp_path: Path) -> None:
    """Killed again and again, one or two at once: all is booked, and what came twice but once."""
    dice = random.Random(seed := random.randrange(1 << 32))
    print("seed", seed)
    bank = tmp_path / "bank.db"
    book = ("exactly_once_sqlite.py", "book", str(bank))
    run(own_namesrv, "exactly_once_sqlite.py", "send", str(TRANSFERS))
    repeated = 0
    for life in range(KILLS):
        with ExitStack() as lives:
            for _ in range(1 + life % 2):
                child = lives.enter_context(start(own_namesrv, *book))
                lives.callback(child.kill)
            repeated += seen_before(child, bank, batches=dice.randrange(1, BATCHES))
    over = transferred(bank) == sum(range(TRANSFERS))  # before a slow machine came to the next kill
    assert repeated or over, "the broker did not hear of what was booked before the kill"
    with start(own_namesrv, *book) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == f"books into {bank}\n"  # from now on it ends in order
            asyncio.run(until(lambda: transferred(bank) == sum(range(TRANSFERS)), TIMEOUT_S))
        finally:
            child.terminate()
        printed, _ = child.communicate(timeout=TIMEOUT_S)
    assert child.returncode == 0, printed
    with closing(sqlite3.connect(bank)) as database:
        accounts = dict(database.execute("SELECT owner, cents FROM accounts"))
    assert accounts == {f"owner-{at}": sum(range(at, TRANSFERS, 5)) for at in range(5)}


def seen_before(child: subprocess.Popen[str], bank: Path, batches: int) -> int:
    """Return how many messages of so many batches had been booked before.

    Of fewer batches where all is booked: another process may have done the rest.
    """
    assert child.stdout is not None
    pipe, printed, ends_s = child.stdout.fileno(), b"", time.monotonic() + TIMEOUT_S
    while printed.count(b"\n") <= batches and transferred(bank) < sum(range(TRANSFERS)):
        assert time.monotonic() < ends_s, printed.decode()
        if select.select([pipe], [], [], 0.1)[0]:
            more = os.read(pipe, 65_536)
            assert more, f"it has ended: {printed.decode()}"
            printed += more
    repeated = 0
    for line in printed.decode().splitlines(keepends=True)[1 : 1 + batches]:
        found = re.fullmatch(r"booked (\d+) of (\d+)\n", line)
        assert found, line
        repeated += int(found[2]) - int(found[1])
    return repeated


def transferred(bank: Path) -> int:
    """Return what has been booked."""
    with closing(sqlite3.connect(bank)) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'accounts'").fetchone():
            return 0
        (cents,) = database.execute("SELECT sum(cents) FROM accounts").fetchone()
    assert cents is None or cents <= sum(range(TRANSFERS)), "something was booked twice"
    return cents or 0


def test_fastapi_service(namesrv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An order is taken, handled by the consumer, and found by its number."""
    monkeypatch.setenv("NAMESRV_ADDR", namesrv)
    with TestClient(load("fastapi_service").app) as http:
        assert http.post("/orders", json={"number": "n-1"}).status_code == 422
        placed = http.post("/orders", json={"number": "n-1", "cents": 4200})
        assert placed.status_code == 202 and placed.json()["message_id"]
        wanted = {"number": "n-1", "cents": 4200, "handled": True}
        asyncio.run(until(lambda: http.get("/orders/n-1").json() == wanted))
        assert http.get("/orders/n-2").status_code == 404


def test_fastapi_service_without_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts, and says with every order that it cannot be stored."""
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")
    with TestClient(load("fastapi_service").app) as http:
        refused = http.post("/orders", json={"number": "n-1", "cents": 4200})
    assert refused.status_code == 503
    assert "127.0.0.1:1" in refused.json()["detail"]


async def test_notebook(namesrv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells run one after the other on a loop that is running already."""
    monkeypatch.setenv("NAMESRV_ADDR", namesrv)
    cells = json.loads((EXAMPLES / "notebook.ipynb").read_text())["cells"]
    assert sum(len(cell["source"]) for cell in cells) <= LINES_MAX
    assert not any(cell.get("outputs") for cell in cells), "outputs are those of one machine"
    names: dict[str, Any] = {}
    shown = [await cell_value("".join(c["source"]), names) for c in cells if "outputs" in c]
    assert repr(names["producer"]) == "<Producer 'DEFAULT_PRODUCER': closed>"
    assert shown[2].json() == {"number": 2, "city": "Rome"}
    assert shown[3] == [("Oslo", 3), ("Bern", 2), ("Rome", 1)]
    assert shown[4] and set(shown[4]) <= {"Oslo", "Bern", "Rome"}


async def cell_value(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does; return the value of its last line, if that is one."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    parts: list[tuple[ast.Module | ast.Expression, str]] = [(tree, "exec")]
    if isinstance(last, ast.Expr):
        parts.append((ast.Expression(last.value), "eval"))
    value: Any = None
    for part, mode in parts:
        code = compile(part, "cell", mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        value = eval(code, names)
        if asyncio.iscoroutine(value):
            value = await value
    return value
