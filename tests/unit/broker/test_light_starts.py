"""A start waits for no library that it does not use."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.disks.logs import opened, send
from support.servers.brokers import SMALL_STORE

from aerobee.broker.settings.keys import BrokerSettings

STARTS = """
import asyncio, sys
from pathlib import Path

from support.servers.brokers import running_broker

async def main(folder):
    async with running_broker(folder):
        unused = {"aiohttp", "cryptography", "lark", "numpy", "pydantic_settings"}
        print("loaded", sorted(unused & set(sys.modules)))

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.parametrize("messages", [None, 0, 20], ids=["no store", "empty", "with messages"])
def test_a_start_after_a_clean_stop_loads_nothing_in_vain(
    tmp_path: Path, messages: int | None
) -> None:
    """numpy alone would take a sixth of a second, a third of a start, where nothing is mended."""
    if messages is not None:
        options = {"storePathRootDir": str(tmp_path / "store"), **SMALL_STORE}
        store = BrokerSettings.load(None, options, {})[0].store
        written = opened(replace(store, helper_process=False))
        for number in range(messages):
            send(written, queue_id=number % 2)
        written.close()
    command = [sys.executable, "-c", STARTS, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "loaded []", done.stderr
