"""kill -9 of a broker that makes groups among many: what it has answered is there afterwards."""

import asyncio
import json
from functools import partial
from pathlib import Path

from support.raw_peer import RawPeer
from support.runs.kill_rounds import ROUNDS, drawn
from support.servers.killed_broker import KilledBroker
from support.waiting import until

from aerobee.broker.tables.changes_file import TABLE_BYTES_LEAST
from aerobee.broker.tables.groups import GroupTable
from aerobee.remoting.bodies import SubscriptionGroupConfig, encode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.frame import encode_frame

GROUPS = 1500
OUTSTANDING = 64


def request(name: str, number: int) -> Command:
    """Ask for a group."""
    config = SubscriptionGroupConfig(group_name=name, retry_max_times=number)
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    return Command(code=code, opaque=number, body=encode_body(config))


async def make_until_dead(port: int, first: int, answered: dict[str, int]) -> None:
    """Keep so many requests on their way; note each that is answered until the end."""
    asked: dict[int, tuple[str, int]] = {}
    async with await RawPeer.connect(port) as peer:

        async def ask(number: int) -> None:
            name = f"made{number % 500}"
            command = request(name, number)
            asked[command.opaque] = name, number
            await peer.send(encode_frame(command))

        try:
            for number in range(first, first + OUTSTANDING):
                await ask(number)
            number = first + OUTSTANDING
            while True:
                reply = await peer.read()
                assert reply.code == ResponseCode.SUCCESS, reply.remark
                name, retries = asked.pop(reply.opaque)
                answered[name] = max(retries, answered.get(name, 0))
                await ask(number)
                number += 1
        except (OSError, EOFError, AerobeeError):
            return  # killed


def made(answered: dict[str, int], wanted: int) -> bool:
    """Whether so many names have been answered."""
    return len(answered) >= wanted


async def test_answered_groups_survive(tmp_path: Path) -> None:
    """Whatever was answered last of each is there, or a later one that was asked for."""
    dice = drawn()
    process = KilledBroker(tmp_path, "ASYNC_FLUSH", flushConsumerOffsetInterval="200")
    config = process.store / "config"
    config.mkdir(parents=True)
    groups = GroupTable(lambda: 1000, config)
    for number in range(GROUPS):
        groups.update(SubscriptionGroupConfig(group_name=f"g{number}"))
    path = config / "subscriptionGroup.json"
    path.write_bytes(groups.encode())
    assert path.stat().st_size > TABLE_BYTES_LEAST
    answered: dict[str, int] = {}
    beside = 0
    for turn in range(ROUNDS):
        process.start()
        load = asyncio.create_task(make_until_dead(process.port, turn * 100_000, answered))
        wanted = min(500, len(answered) + dice.randrange(1, 150))
        await until(partial(made, answered, wanted), 20, "groups are made")
        process.kill()
        await load
        beside += path.with_name(f"{path.name}.changes").exists()
        found = GroupTable(lambda: 1000, config)
        found.load()
        kept = {each.group_name: each.retry_max_times for each in found}
        lost = {name for name, number in answered.items() if kept.get(name, -1) < number}
        assert not lost and len(kept) >= GROUPS
    assert beside, "no kill met changes that lay beside the table"
    process.start()
    assert process.stop() == 0
    table = json.loads(path.read_bytes())["subscriptionGroupTable"]
    assert all(table[name]["retryMaxTimes"] >= number for name, number in answered.items())
    assert not path.with_name(f"{path.name}.changes").exists()
