"""The example of client/requests/README.md runs as it stands."""

import asyncio
import re
import sys
from pathlib import Path

from aerobee.testing import EmbeddedCluster

README = Path(__file__).parents[4] / "client" / "requests" / "README.md"


async def test_the_example_runs(tmp_path: Path) -> None:
    """Both sides in one program, at a broker of ours."""
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("price", 2)
        program = example.replace("127.0.0.1:9876", cluster.namesrv_addr)
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-W", "error", "-c", program, stdout=-1, stderr=-2
        )
        async with asyncio.timeout(60):
            output, _ = await child.communicate()
    assert child.returncode == 0, output.decode()
    assert "b'3.20'\nno such fruit\n" in output.decode()
