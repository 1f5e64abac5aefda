"""The examples of client/README.md run as they stand."""

import asyncio
import re
import sys
from pathlib import Path

from support.stand_ins.fake_cluster import FakeCluster

README = Path(__file__).parents[3] / "client" / "README.md"


async def run(program: str) -> str:
    """Run a program in a process of its own and return what it prints."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-c", program, stdout=-1, stderr=-2
    )
    async with asyncio.timeout(30):
        output, _ = await child.communicate()
    assert child.returncode == 0, output.decode()
    return output.decode()


async def test_the_examples_run(cluster: FakeCluster) -> None:
    """Sending, being handed and polling, one after the other."""
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    programs = [each.replace("127.0.0.1:9876", cluster.namesrv) for each in examples]
    assert len(programs) == 5
    assert re.fullmatch(r"SEND_OK \d \d\n", await run(programs[0]))
    printed = await run(programs[1])
    assert "orders new b'one'" in printed
    assert "orders paid b'two'" in printed
    billed = await run(programs[2])
    assert "b'two' 0" in billed and "b'two' 1" in billed
    assert re.fullmatch(r"True\n\d \d+\n", await run(programs[3]))
    pulled = await run(programs[4])
    assert len(pulled.splitlines()) == len(cluster.brokers) * cluster.brokers[0].topics["orders"]
    assert "FOUND" in pulled
