"""kill -9 of `aerobee store snapshot` and `restore` beside a broker under load, and of that."""

import asyncio
import subprocess
import sys
from pathlib import Path

from support.runs.kill_rounds import drawn
from support.servers.killed_broker import KilledBroker
from support.waiting import until

from aerobee.admin import AdminClient
from aerobee.client import Message, Producer, SendFailed
from aerobee.namesrv.app import NameServer
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.storage.tools.guessing import store_settings
from aerobee.storage.verify import verify

AEROBEE = (sys.executable, "-m", "aerobee", "store")
TIMEOUT_S = 60
KILLS = 2


def interrupted(words: list[str], after_s: float) -> subprocess.CompletedProcess[bytes]:
    """Run a command, and kill it after a while; -9 is its code if it had not ended."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        try:
            out, err = child.communicate(timeout=after_s)
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
    return subprocess.CompletedProcess(words, child.returncode, out, err)


async def run(words: list[str], *, killed_after_s: list[float]) -> None:
    """Run a command to its end, killed so often on its way."""
    for after_s in killed_after_s:
        ended = await asyncio.to_thread(interrupted, words, after_s)
        assert ended.returncode in (0, -9), ended.stderr
        if ended.returncode == 0:
            return
    ended = await asyncio.to_thread(interrupted, words, TIMEOUT_S)
    assert ended.returncode == 0, ended.stderr


async def test_what_was_answered_is_in_a_snapshot_that_was_killed(tmp_path: Path) -> None:
    """And in the store that it becomes; the broker that was copied is killed as well."""
    dice = drawn()
    namesrv = NameServer(NamesrvSettings(listen_port=0, bind_address="127.0.0.1"))
    await namesrv.start()
    address = f"127.0.0.1:{namesrv.port}"
    process = KilledBroker(tmp_path, "ASYNC_FLUSH", namesrvAddr=address)
    process.start()
    answered = 0
    try:
        async with AdminClient(address) as admin:
            await admin.create_topic("kept", 3)

        async def load() -> None:
            nonlocal answered
            async with Producer(namesrv=address, group="loading") as producer:
                try:
                    while True:
                        sends = (producer.send(Message("kept", bytes(4_000))) for _ in range(30))
                        await asyncio.gather(*sends)
                        answered += 30
                        await asyncio.sleep(0.05)  # the test is about the copies
                except SendFailed:
                    return  # killed

        loading = asyncio.create_task(load())
        await until(lambda: answered >= 600, what="messages")
        snapshot = tmp_path / "snapshot"
        words = [*AEROBEE, "snapshot", str(process.store), str(snapshot)]
        waits = [dice.uniform(0.2, 1.5) for _ in range(KILLS)]
        wanted = answered
        await run(words, killed_after_s=waits)
        process.kill()
        await loading
        (tmp_path / "back").mkdir()
        back = KilledBroker(tmp_path / "back", "ASYNC_FLUSH", namesrvAddr=address)
        words = [*AEROBEE, "restore", str(snapshot), str(back.store)]
        await run(words, killed_after_s=[dice.uniform(0.2, 1.0) for _ in range(KILLS)])
        back.start()
        async with AdminClient(address) as admin:
            described = await admin.topic.describe("kept")
        assert wanted <= described.messages <= answered + 30
        assert back.stop() == 0
    finally:
        KilledBroker.end_all()
        await namesrv.stop()
    assert not verify(store_settings(back.store)).problem_count
