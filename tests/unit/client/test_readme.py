"""The examples of client/README.md run as they stand."""

import ast
import asyncio
import re
import sys
from pathlib import Path

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.stand_ins.fake_transactions import ends

from aerobee.remoting.codes import SysFlag

README = Path(__file__).parents[3] / "client" / "README.md"


async def run(program: str, folder: Path) -> str:
    """Run a program in a process of its own, in a folder, and return what it prints."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-c", program, stdout=-1, stderr=-2, cwd=folder
    )
    async with asyncio.timeout(30):
        output, _ = await child.communicate()
    assert child.returncode == 0, output.decode()
    return output.decode()


async def test_the_examples_run(cluster: FakeCluster, tmp_path: Path) -> None:
    """In the order in which they stand; each does what its text says."""
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    programs = iter([each.replace("127.0.0.1:9876", cluster.namesrv) for each in examples])
    assert len(examples) == 14

    async def following() -> str:
        return await run(next(programs), tmp_path)

    assert re.fullmatch(r"SEND_OK \d \d\n", await following())
    assert await following() == "{'number': 7, 'cents': 4200} 4200\n"
    assert await following() == "0 SEND_OK\n"
    assert await following() == "SEND_OK\n"
    reminders = [
        record.body
        for broker in cluster.brokers
        for (topic, _), records in broker.log.items()
        if topic == "reminders"
        for record in records
    ]
    assert reminders == [b"ship"], "what was taken back is gone"
    assert "no second order, and no message: UNIQUE" in await following()
    states = [end.commit_or_rollback for broker in cluster.brokers for end in ends(broker)]
    assert sorted(states) == [SysFlag.TRANSACTION_COMMIT, SysFlag.TRANSACTION_ROLLBACK]
    found = await following()
    assert "b'one'" in found and found.endswith("True {}\n1\n")
    printed = await following()
    assert "orders new b'one'" in printed
    assert "orders paid b'two'" in printed
    billed = await following()
    assert "b'two' 0" in billed and "b'two' 1" in billed
    assert re.fullmatch(r"True\n\d \d+\n", await following())
    pulled = await following()
    assert len(pulled.splitlines()) == len(cluster.brokers) * cluster.brokers[0].topics["orders"]
    assert "FOUND" in pulled
    assert await following() == "SEND_OK 1000\nread 1001\n"
    assert await following() == "mailed one\nall that was handled is committed\n"
    assert re.fullmatch(r"202 Accepted\n\[b'[0-9A-F]{32}'\]\n", await following())
    assert await following() == "{'SEND_OK'}\n"


async def test_the_notebooks_cell_runs(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a loop that runs already, as IPython compiles it."""
    (cell,) = re.findall(r"```py\n(.*?)```", README.read_text(), re.DOTALL)
    code = compile(
        cell.replace("127.0.0.1:9876", cluster.namesrv),
        "cell",
        "exec",
        flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
    )
    await eval(code, {})
    assert capsys.readouterr().out.startswith("SendResult(")
