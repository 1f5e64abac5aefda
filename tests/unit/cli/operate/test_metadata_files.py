"""Topics and groups as files of version control: YAML, TOML, JSON."""

import json
from pathlib import Path

import pytest
from support.servers.commands import Commands

from aerobee.cli.operate.metadata_files import read_metadata_file
from aerobee.client.errors import InvalidUse

TOPIC = {"brokers": ["*"], "config": {"readQueueNums": 3, "writeQueueNums": 3, "perm": 6}}


def test_a_cluster_goes_through_yaml(commands: Commands, tmp_path: Path) -> None:
    """Exported, it differs in nothing; changed by hand, it is applied once."""
    commands("topic", "create", "yaml-orders", "-q", "2", "-a", "aerobee.dedup.seconds=60")
    commands("topic", "create", "yaml-1", "-q", "1")
    file = tmp_path / "cluster.yaml"
    commands("config", "export", "-f", str(file))
    shown = commands("config", "export", "-o", "yaml").stdout
    assert shown.encode() == file.read_bytes()
    assert commands.json("config", "diff", str(file)) == []
    text = file.read_text()
    assert "aerobee.dedup.seconds: '60'" in text
    file.write_text(text.replace("aerobee.dedup.seconds: '60'", "aerobee.dedup.seconds: '90'"))
    (row,) = commands.json("config", "diff", str(file), code=5)
    assert (row["action"], row["name"]) == ("change", "yaml-orders")
    commands("config", "apply", str(file), "--yes")
    assert commands.json("config", "diff", str(file)) == []
    for wrong in (("-o", "csv"), ("-f", str(tmp_path / "c.toml"))):
        commands("config", "export", *wrong, code=2)


def test_toml_and_json_are_the_same(commands: Commands, tmp_path: Path) -> None:
    """Whoever writes a file by hand has the choice."""
    toml, plain = tmp_path / "c.toml", tmp_path / "c.json"
    toml.write_text(
        'version = 1\n[[topics.toml-made]]\nbrokers = ["*"]\n[topics.toml-made.config]\n'
        "readQueueNums = 3\nwriteQueueNums = 3\nperm = 6\n"
    )
    plain.write_text(json.dumps({"version": 1, "topics": {"toml-made": [TOPIC]}}))
    assert json.loads(read_metadata_file(toml)) == json.loads(read_metadata_file(plain))
    commands("config", "apply", str(toml), "--yes")
    assert commands.json("config", "diff", str(plain)) == []
    (row,) = commands.json("topic", "list", "--like", "toml-made")
    assert row["read_queues"] == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a [x]\nb: *a\n", "aliases are not taken, line 2"),
        ("topics:\n  t: []\n  t: []\n", "'t' is there twice, in what begins in line 2"),
        ("topics: [", "cannot be read"),
        ("{1: !!python/object/apply:os.system [x]}", "cannot be read"),
        ("\x00", "cannot be read"),
    ],
)
def test_what_is_no_plain_yaml_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """With the place; nothing of it is built."""
    file = tmp_path / "c.yml"
    file.write_text(text)
    with pytest.raises(InvalidUse, match=said):
        read_metadata_file(file)


def test_a_word_that_yaml_takes_for_another_is_told(commands: Commands, tmp_path: Path) -> None:
    """`on` is true there, and an attribute is text."""
    file = tmp_path / "c.yaml"
    file.write_text(
        "version: 1\ntopics:\n  t:\n  - brokers: ['*']\n    config:\n      attributes: {a: on}\n"
    )
    refused = commands("config", "diff", str(file), code=2)
    assert "topics.t[0].config" in refused.stderr
