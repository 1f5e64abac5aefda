"""`aerobee broker`, `cluster`, `doctor` and `config` over a cluster."""

import json
from pathlib import Path

import pytest
from support.servers.commands import Commands

from aerobee.testing import ClusterThread


def test_brokers_and_clusters_are_listed(rocketmq: ClusterThread, commands: Commands) -> None:
    """With addresses, versions and rates."""
    (row,) = commands.json("broker", "list")
    assert (row["broker"], row["address"]) == ("broker-a", rocketmq.broker_addrs[0])
    assert row["version"].startswith("V5_")
    assert isinstance(row["in_tps"], float)
    assert commands.json("cluster", "list") == [
        {"cluster": "DefaultCluster", "broker": "broker-a", "id": 0, "role": "master",
         "address": rocketmq.broker_addrs[0]}
    ]  # fmt: skip
    pairs = {row["key"]: row["value"] for row in commands.json("broker", "describe", "broker-a")}
    assert pairs["brokerActive"] == "true"


def test_a_setting_is_changed_and_shown(commands: Commands) -> None:
    """One that nobody knows is an error before anything is changed."""
    words = ("broker", "set", "broker-a")
    before = commands.json("broker", "settings", "broker-a", "--like", "fileReservedTime")
    (row,) = (each for each in before if each["key"] == "fileReservedTime")
    try:
        changed = commands(*words, "fileReservedTime=71")
        assert changed.stdout == f"fileReservedTime: {row['value']} -> 71\n"
    finally:
        commands(*words, f"fileReservedTime={row['value']}")
    refused = commands(*words, "fileReservedTimes=71", code=2)
    assert "no setting 'fileReservedTimes'; `aerobee broker settings" in refused.stderr
    commands(*words, "listenPort=1", code=1)
    refused = commands("broker", "describe", "broker-z", code=2)
    assert "no broker 'broker-z'" in refused.stderr


def test_write_permission_is_wiped_and_given_back(commands: Commands) -> None:
    """The nameserver's route says so."""
    commands("topic", "create", "cli-wiped", "-q", "2")
    wiped = commands("broker", "wipe-writes", "broker-a", "--yes").stdout
    try:
        assert "topics of broker-a cannot be written" in wiped
        rows = commands.json("doctor", "--topic", "cli-wiped")
        assert any("clients may not write on broker-a" in row["what"] for row in rows)
    finally:
        commands("broker", "allow-writes", "broker-a")
    rows = commands.json("doctor", "--topic", "cli-wiped")
    assert {row["state"] for row in rows} == {"ok"}


def test_the_doctor_finds_what_is_wrong(rocketmq: ClusterThread, commands: Commands) -> None:
    """A topic without route, a group that nobody has, a nameserver that is away."""
    rows = commands.json("doctor")
    assert {row["state"] for row in rows} == {"ok"}
    rows = commands.json("doctor", "--topic", "cli-routeless", code=1)
    assert rows[0]["state"] == "error"
    assert "no route" in rows[0]["what"] and "aerobee topic create cli-routeless" in rows[0]["do"]
    rows = commands.json("doctor", "--group", "cli-nobodys", code=1)
    assert "no group 'cli-nobodys'" in rows[0]["what"]
    one_away = Commands(f"127.0.0.1:1;{rocketmq.namesrv_addr}").json("doctor", code=1)
    assert (one_away[0]["state"], one_away[0]["where"]) == ("error", "127.0.0.1:1")
    assert len(one_away) > 1
    away = Commands("127.0.0.1:1").json("doctor", code=1)
    assert len(away) == 1 and away[0]["do"]


def test_a_file_makes_the_cluster_what_it_says(commands: Commands, tmp_path: Path) -> None:
    """Applied once it changes what differs, applied again nothing."""
    commands("topic", "create", "cli-filed", "-q", "2", "--type", "FIFO")
    commands("group", "create", "cli-filing", "--retries", "5")
    file = tmp_path / "cluster.json"
    commands("config", "export", "-f", str(file))
    assert commands("config", "diff", str(file), "-o", "json").stdout == "[]\n"
    wanted = json.loads(file.read_text())
    (topic,) = wanted["topics"]["cli-filed"]
    assert topic["brokers"] == ["broker-a"] and topic["config"]["readQueueNums"] == 2
    topic["config"] |= {"readQueueNums": 4, "attributes": {}}
    topic["brokers"] = ["*"]
    wanted["topics"]["cli-from-file"] = [{"brokers": ["*"], "config": {"readQueueNums": 3}}]
    wanted["groups"]["cli-filing"][0]["config"]["retryMaxTimes"] = 6
    file.write_text(json.dumps(wanted))
    changes = commands.json("config", "diff", str(file), code=5)
    assert [(row["action"], row["kind"], row["name"]) for row in changes] == [
        ("change", "topic", "cli-filed"),
        ("create", "topic", "cli-from-file"),
        ("change", "group", "cli-filing"),
    ]
    assert "readQueueNums: 2 -> 4" in changes[0]["settings"]
    commands("config", "apply", str(file), "--dry-run")
    commands("config", "diff", str(file), code=5)
    commands("config", "apply", str(file), code=2)  # nobody said yes
    assert commands("config", "apply", str(file), "--yes").stderr == "3 changes made\n"
    assert commands.json("config", "diff", str(file)) == []
    del wanted["topics"]["cli-from-file"], wanted["groups"]["cli-filing"]
    file.write_text(json.dumps(wanted))
    assert commands.json("config", "diff", str(file)) == []
    pruned = commands.json("config", "diff", str(file), "--prune", code=5)
    assert [row["name"] for row in pruned] == ["cli-from-file", "cli-filing"]
    commands("config", "apply", str(file), "--prune", "--yes")
    assert commands.json("config", "diff", str(file), "--prune") == []
    assert commands.json("topic", "list", "--like", "cli-from-file") == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "the file cannot be read"),
        ('{"version": 2}', "version"),
        ('{"version": 1, "topic": {}}', "topic"),
        (
            '{"version":1,"topics":{"t":[{"brokers":["*"],"config":{"readQueueNum":8}}]}}',
            "topics.t[0].config: no setting 'readQueueNum'",
        ),
        (
            '{"version":1,"topics":{"t":[{"brokers":["*"],"config":{"perm":"rw"}}]}}',
            "topics.t[0].config: Expected `int`",
        ),
        (
            '{"version":1,"groups":{"g":[{"brokers":["broker-z"],"config":{}}]}}',
            "groups.g[0].brokers: no broker 'broker-z'",
        ),
        (
            '{"version":1,"groups":{"g":[{"brokers":["*"],"config":{}},'
            + '{"brokers":["broker-a"],"config":{}}]}}',
            "groups.g[1].brokers: 'broker-a' is named twice",
        ),
    ],
)
def test_a_file_that_cannot_be_is_refused_whole(
    commands: Commands, tmp_path: Path, text: str, error: str
) -> None:
    """The place is named, and nothing is changed."""
    file = tmp_path / "wrong.json"
    file.write_text(text)
    refused = commands("config", "apply", str(file), "--yes", code=2)
    assert error in refused.stderr


def test_settings_of_nameservers_are_shown_and_changed(commands: Commands) -> None:
    """Of each; one that nobody knows is an error before anything is changed."""
    rows = commands.json("cluster", "settings")
    assert {row["key"] for row in rows} > {"listenPort"}
    refused = commands("cluster", "set", "noSuchKey=1", code=2)
    assert "has no setting 'noSuchKey'" in refused.stderr
    commands("cluster", "set", "nonsense", code=2)
