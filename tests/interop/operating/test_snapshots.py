"""A snapshot of RocketMQ's store, taken while its broker serves: opened by it, and by ours."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.rocketmq_server import RocketMQ
from support.servers.commands import Commands

from aerobee.cli import main

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(240)]

MESSAGES = 300


def store_command(*words: str) -> str:
    """Run a command over files, which has to succeed; return what it says."""
    result = CliRunner().invoke(main.main, ["store", *words])
    assert result.exit_code == 0, result.output
    return result.output


def fill(commands: Commands, first: int) -> None:
    """Send numbered messages to the topic."""
    lines = (
        json.dumps({"body": f"{at}", "keys": [f"k{at}"]}) for at in range(first, MESSAGES + first)
    )
    commands("message", "produce", "kept", given="\n".join(lines).encode())


def numbers(commands: Commands) -> set[int]:
    """Return which messages are served."""
    return {
        int(line["body"]) for line in commands.lines("message", "browse", "kept", "--limit", "9999")
    }


@pytest.mark.parametrize(
    ("kind", "openers"), [(RocketMQ, (RocketMQ, Aerobee)), (Aerobee, (RocketMQ,))]
)
def test_a_snapshot_of_a_served_store(
    kind: type[Cluster],
    openers: tuple[type[Cluster], ...],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Messages, offsets, topics and keys of before are there with either broker."""
    snapshot = tmp_path / "snapshot"
    with kind(tmp_path / "first") as running:
        commands = Commands(running.namesrv)
        commands("topic", "create", "kept", "-q", "3")
        commands("group", "create", "keeping")
        fill(commands, 0)
        commands("offset", "reset", "keeping", "kept", "--to-end", "--yes")
        committed = commands.json("group", "describe", "keeping")
        said = store_command("snapshot", str(running.store), str(snapshot))
        assert "while it was served" in said
        fill(commands, MESSAGES)
        running.stop()
    assert "sound" in store_command("check", str(snapshot))
    for opened in openers:
        directory = tmp_path_factory.mktemp("back")
        store_command("restore", str(snapshot), str(directory / "store"))
        with opened(directory) as running:
            commands = Commands(running.namesrv)
            found = numbers(commands)
            assert set(range(MESSAGES)) <= found < set(range(2 * MESSAGES))
            (row,) = commands.lines("message", "find", "kept", "--key", "k17")
            assert row["body"] == "17"
            again = commands.json("group", "describe", "keeping")
            before = {(row["topic"], row["queue"]): row["committed"] for row in committed}
            after = {(row["topic"], row["queue"]): row["committed"] for row in again}
            assert all(after.get(place, 0) <= offset for place, offset in before.items())
            fill(commands, 2 * MESSAGES)
            assert set(range(2 * MESSAGES, 3 * MESSAGES)) <= numbers(commands)
            running.stop()
