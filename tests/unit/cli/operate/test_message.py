"""`aerobee message`: sent, looked at, copied, from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.servers.commands import Commands

from aerobee.testing import ClusterThread


@pytest.fixture(scope="module")
def orders(rocketmq: ClusterThread) -> str:
    """Make a topic of three queues with twelve messages, and return its name."""
    topic = "cli-messages"
    rocketmq.create_topic(topic, queues=3)
    lines = [
        {
            "body": f"order {number}",
            "tags": "even" if number % 2 == 0 else "odd",
            "keys": [f"key-{number}"],
            "properties": {"number": str(number)},
        }
        for number in range(12)
    ]
    given = "\n".join(map(json.dumps, lines)).encode()
    sent = Commands(rocketmq.namesrv_addr)("message", "produce", topic, given=given)
    assert sent.stderr == f"{topic}: 12 sent\n"
    return topic


def bodies(rows: list[dict[str, Any]]) -> list[str]:
    """Return the bodies of messages, in their order."""
    return [row["body"] for row in rows]


def test_messages_are_shown_in_the_order_of_their_times(orders: str, commands: Commands) -> None:
    """Those of all queues are merged; each has its place, tag, keys and properties."""
    rows = commands.lines("message", "browse", orders)
    assert bodies(rows) == [f"order {number}" for number in range(12)]
    first = rows[0]
    assert (first["tags"], first["keys"], first["properties"]) == (
        "even",
        ["key-0"],
        {"number": "0"},
    )
    assert first["broker"] == "broker-a"


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["--tag", "odd"], [1, 3, 5, 7, 9, 11]),
        (["--tag", "odd || even", "--limit", "2"], [0, 1]),
        (["--key", "key-7"], [7]),
        (["--text", "der 1"], [1, 10, 11]),
        (["--newest", "--limit", "2"], [10, 11]),
        (["--newest", "--limit", "1", "--key", "key-0"], [0]),
        (["--newest", "--limit", "2", "--tag", "even"], [8, 10]),
        (["--since", "1h", "--tag", "even"], [0, 2, 4, 6, 8, 10]),
        (["--until", "1h"], []),
        (["--since", "2100-01-01"], []),
        (["--limit", "0"], list(range(12))),
    ],
)
def test_messages_are_chosen(
    orders: str, commands: Commands, words: list[str], numbers: list[int]
) -> None:
    """By tag, key, text, time and number."""
    found = bodies(commands.lines("message", "browse", orders, *words))
    assert found == [f"order {number}" for number in numbers]


def test_a_message_is_found_by_key_and_id(orders: str, commands: Commands) -> None:
    """The brokers' index is asked."""
    (row,) = commands.lines("message", "find", orders, "--key", "key-5")
    assert row["body"] == "order 5"
    (same,) = commands.lines("message", "find", orders, "--id", row["message_id"])
    assert same == row
    assert commands.lines("message", "find", orders, "--key", "no-such") == []
    refused = commands("message", "find", orders, code=2)
    assert "give one of key and message_id" in refused.stderr


def test_sql_that_the_broker_does_not_take_is_its_own_words(
    orders: str, commands: Commands
) -> None:
    """enablePropertyFilter is off by default."""
    refused = commands("message", "browse", orders, "--sql", "number > 3", code=1)
    assert "SQL92" in refused.stderr
    refused = commands("message", "browse", orders, "--sql", "x", "--tag", "odd", code=2)
    assert "give one of tags and sql" in refused.stderr


def test_what_is_shown_can_be_sent(orders: str, commands: Commands, tmp_path: Path) -> None:
    """Lines of one topic make another, and --skip goes on behind an error."""
    shown = commands("message", "browse", orders, "-o", "json").stdout
    commands("topic", "create", "cli-again", "-q", "1")
    file = tmp_path / "lines"
    shown = shown.replace("order 7", "order 7\\u0000", 1)
    file.write_text(shown + "no json\n" + '{"body": "last"}\n')
    failed = commands("message", "produce", "cli-again", "--file", str(file), code=2)
    assert "error: line 13: " in failed.stderr
    assert "cli-again: 12 sent\nto go on: --skip 12\n" in failed.stderr
    commands("message", "produce", "cli-again", "--file", str(file), "--skip", "13")
    rows = commands.lines("message", "browse", "cli-again")
    assert bodies(rows)[6:9] == ["order 6", "order 7\x00", "order 8"] and rows[-1]["body"] == "last"
    assert rows[3]["properties"] == {"number": "3"}


def test_nothing_in_a_message_moves_the_cursor(commands: Commands) -> None:
    """What anybody sent is shown as text, in one line."""
    commands("topic", "create", "cli-hostile", "-q", "1")
    given = b'{"body": "a\\u001b[2Jb\\nc\\u009bd", "tags": "t"}\n{"body_base64": "/w=="}'
    commands("message", "produce", "cli-hostile", given=given)
    lines = commands("message", "browse", "cli-hostile").stdout.splitlines()
    assert [line.split("\t")[-1] for line in lines] == ["a\\x1b[2Jb\\nc\\x9bd", "�"]
    drawn = commands("message", "browse", "cli-hostile", "-o", "table").stdout
    assert "\x1b" not in drawn and "\x9b" not in drawn
    rows = commands.lines("message", "browse", "cli-hostile")
    assert rows[1]["body_base64"] == "/w=="


def test_what_is_shown_is_read_as_it_is(commands: Commands) -> None:
    """Characters that end a line for some, or that YAML does not take, are escaped."""
    commands("topic", "create", "cli-yaml", "-q", "1")
    body = "a\x7fb\x85c\u2028d\ufeffe\x00f: 'é\U0001f600'"
    given = json.dumps({"body": body, "tags": "1e3", "keys": ["007"]}).encode()
    commands("message", "produce", "cli-yaml", given=given)
    (row,) = commands.lines("message", "browse", "cli-yaml")
    (same,) = yaml.safe_load_all(commands("message", "browse", "cli-yaml", "-o", "yaml").stdout)
    assert same == row and (row["body"], row["tags"], row["keys"]) == (body, "1e3", ["007"])


def test_a_damaged_message_is_not_sent_on(commands: Commands) -> None:
    """Its body is not what somebody sent, though it is shown."""
    commands("topic", "create", "cli-damaged", "-q", "1")
    given = b'{"body": "", "damage": "the checksum differs"}'
    refused = commands("message", "produce", "cli-damaged", given=given, code=2)
    assert "line 1: its body is not what was sent (the checksum differs)" in refused.stderr


def test_raw_lines_are_bodies(commands: Commands) -> None:
    """Each is sent as it is, with the tag that is given."""
    commands("topic", "create", "cli-raw", "-q", "1")
    commands("message", "produce", "cli-raw", "--raw", "--tag", "n", given=b"1\n2\n\n3")
    rows = commands.lines("message", "browse", "cli-raw")
    assert [(row["body"], row["tags"]) for row in rows] == [("1", "n"), ("2", "n"), ("3", "n")]


def test_messages_are_read_as_they_come(orders: str, commands: Commands) -> None:
    """Tail begins where it is told to, and ends after so many."""
    rows = commands.lines("message", "tail", orders, "--since", "1h", "--limit", "5")
    assert bodies(rows) == [f"order {number}" for number in range(5)]


def test_peek_shows_what_a_group_gets_next(orders: str, commands: Commands) -> None:
    """And leaves it there."""
    commands("group", "create", "cli-peeks")
    commands("offset", "reset", "cli-peeks", orders, "--to-end", "--yes")
    assert commands.lines("message", "peek", orders, "cli-peeks") == []
    commands("offset", "reset", "cli-peeks", orders, "--to-begin", "--yes")
    for _ in range(2):
        rows = commands.lines("message", "peek", orders, "cli-peeks", "--limit", "2")
        assert bodies(rows) == ["order 0", "order 1"]


def test_a_copy_is_made_once_and_goes_on(orders: str, commands: Commands) -> None:
    """The same command copies what is new; --again begins from the beginning."""
    commands("topic", "create", "cli-copied", "-q", "3")
    words = ("message", "copy", orders, "cli-copied")
    assert commands(*words, "--limit", "5").stdout == "5 sent\n"
    assert commands(*words).stdout == "7 sent\n"
    assert commands(*words).stdout == "0 sent\n"
    rows = commands.lines("message", "browse", "cli-copied", "--limit", "0")
    assert sorted(bodies(rows)) == sorted(f"order {number}" for number in range(12))
    assert {row["keys"][0]: row["tags"] for row in rows}["key-3"] == "odd"
    assert commands(*words, "--again").stdout == "12 sent\n"
    refused = commands("message", "copy", orders, orders, code=2)
    assert "source and target" in refused.stderr
    refused = commands("message", "copy", orders, "cli-nowhere", code=2)
    assert "make it first" in refused.stderr


def test_no_copy_keeps_its_place_in_a_group_that_consumes(orders: str, commands: Commands) -> None:
    """It would move its offsets, and --again delete it."""
    commands("topic", "create", "cli-placed", "-q", "1")
    commands("group", "create", "cli-consumes")
    words = ("message", "copy", orders, "cli-placed", "--name")
    for more in ((), ("--again",)):
        refused = commands(*words, "cli-consumes", *more, code=2)
        assert "there is a group 'cli-consumes'" in refused.stderr
    assert [row["lag"] for row in commands.json("group", "describe", "cli-consumes")] == []
    assert commands(*words, "cli-placing", "--limit", "5").stdout == "5 sent\n"
    assert commands(*words, "cli-placing").stdout == "7 sent\n"
    assert commands(*words, "cli-placing", "--again").stdout == "12 sent\n"


def test_a_move_takes_what_a_group_has_not_consumed(orders: str, commands: Commands) -> None:
    """The group passes over what was moved."""
    commands("topic", "create", "cli-moved", "-q", "3")
    commands("group", "create", "cli-movers")
    commands("offset", "reset", "cli-movers", orders, "--to-offset", "2", "--yes")
    words = ("message", "move", orders, "cli-moved", "--group", "cli-movers")
    assert "Send 6 messages to cli-moved" in commands(*words, code=2).stderr
    moved = commands(*words, "--yes")
    assert moved.stdout == "6 sent\n"
    assert all(row["lag"] == 0 for row in commands.json("group", "describe", "cli-movers"))
    assert len(commands.lines("message", "browse", "cli-moved")) == 6


def test_the_path_of_a_message_is_shown(commands: Commands) -> None:
    """Where its record lies, and how each group stands to it; from an offset on, too."""
    commands("topic", "create", "cli-tracked", "-q", "1")
    lines = b"\n".join(b'{"body": "%d", "keys": ["tracked-%d"]}' % (at, at) for at in range(3))
    commands("message", "produce", "cli-tracked", given=lines)
    commands("group", "create", "cli-tracking")
    commands("offset", "reset", "cli-tracking", "cli-tracked", "--to-offset", "1", "--yes")
    words = ("message", "track", "cli-tracked", "--key")
    rows = commands.json(*words, "tracked-1")
    sent = next(row for row in rows if row["what"] == "sent")
    assert (sent["broker"], sent["queue"], sent["offset"]) == ("broker-a", 0, 1)
    assert {row["group"] for row in rows} == {"", "cli-tracking"}
    refused = commands(*words, "tracked-9", code=2)
    assert "no message of 'cli-tracked' has that key" in refused.stderr
    found = commands.lines("message", "browse", "cli-tracked", "--offset", "2")
    assert [line["body"] for line in found] == ["2"]
