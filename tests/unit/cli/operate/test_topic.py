"""`aerobee topic` from the command line to a broker and back."""

import csv
import io
import json

import pytest
from support.servers.commands import Commands

from aerobee.testing import ClusterThread


def test_a_topic_is_made_listed_described_altered_and_deleted(commands: Commands) -> None:
    """Each command sees what the one before has done."""
    made = commands("topic", "create", "cli-life", "-q", "3", "--type", "FIFO")
    assert made.stdout == "cli-life: 3 queues on broker-a\n"
    assert commands.table("topic", "list", "--like", "cli-life") == [
        ["topic", "broker", "read_queues", "write_queues", "perm", "type"],
        ["cli-life", "broker-a", "3", "3", "rw", "FIFO"],
    ]
    assert commands.json("topic", "describe", "cli-life") == [
        {
            "broker": "broker-a",
            "queue": number,
            "begin": 0,
            "end": 0,
            "messages": 0,
            "newest": None,
        }
        for number in range(3)
    ]
    altered = commands(
        "topic", "alter", "cli-life", "-q", "5", "--write-queues", "4", "--perm", "r"
    )
    assert altered.stdout == (
        "broker-a: 3 queues, rw, message.type=FIFO"
        " -> 5 queues to read, 4 to write, r, message.type=FIFO\n"
    )
    again = commands("topic", "alter", "cli-life", "-a", "message.type=")
    assert again.stdout.endswith(" -> 5 queues to read, 4 to write, r\n")
    deleted = commands("topic", "delete", "cli-life", "--yes")
    assert deleted.stdout == "cli-life: deleted from broker-a\n"
    assert commands.json("topic", "list", "--like", "cli-life") == []
    commands("topic", "delete", "cli-life", "--yes")  # done twice it does no harm


def test_topics_of_brokers_are_shown_with_all(commands: Commands) -> None:
    """A listing has what users made, and with --all the rest."""
    assert not {"TBW102", "broker-a"} & {row["topic"] for row in commands.json("topic", "list")}
    assert {"TBW102", "broker-a"} <= {
        row["topic"] for row in commands.json("topic", "list", "--all")
    }


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["describe", "nobody-made-it"], 2, "`aerobee topic create nobody-made-it` makes it"),
        (["alter", "nobody-made-it", "-q", "3"], 2, "none of broker-a has a topic"),
        (["create", "no blanks"], 2, "no blanks"),
        (["create", "t", "-a", "nothing"], 2, "write NAME=VALUE"),
        (["create", "t", "-a", "no.such=1"], 1, "no.such"),
        (["create", "t", "-b", "broker-z"], 2, "no broker 'broker-z'; there is broker-a"),
        (["list", "-c", "elsewhere"], 2, "no cluster 'elsewhere'; there is DefaultCluster"),
        (["delete", "TBW102", "--yes"], 1, "TBW102"),
        (["list", "-n", "no-port"], 2, "no-port"),
    ],
)
def test_an_error_says_what_where_and_what_to_do(
    commands: Commands, words: list[str], code: int, text: str
) -> None:
    """It is on standard error, without a traceback; 2 is the caller's, 1 the cluster's."""
    result = commands("topic", *words, code=code)
    assert result.stderr.startswith("error: ")
    assert text in result.stderr
    assert result.stdout == ""


def test_a_topic_is_not_made_twice(commands: Commands) -> None:
    """To create is not to change: who means that says `alter`, or does not mind."""
    commands("topic", "create", "cli-twice", "-q", "2")
    refused = commands("topic", "create", "cli-twice", "-q", "9", code=2)
    assert "broker-a has a topic 'cli-twice' already; `aerobee topic alter" in refused.stderr
    there = commands("topic", "create", "cli-twice", "-q", "9", "--if-not-exists")
    assert there.stdout == "cli-twice: there already\n"
    assert len(commands.json("topic", "describe", "cli-twice")) == 2


def test_nothing_is_deleted_without_a_word(commands: Commands) -> None:
    """Without a terminal nobody can be asked."""
    commands("topic", "create", "cli-kept")
    refused = commands("topic", "delete", "cli-kept", code=2)
    assert "Delete cli-kept with 0 messages on broker-a?" in refused.stderr
    assert "--yes" in refused.stderr
    assert commands.json("topic", "describe", "cli-kept")


def test_each_form_says_the_same(commands: Commands) -> None:
    """Lines, CSV, YAML and JSON have the same rows."""
    commands("topic", "create", "cli-forms", "-q", "2")
    words = ("topic", "list", "--like", "cli-forms")
    rows = commands.json(*words)
    assert rows == [
        {"topic": "cli-forms", "broker": "broker-a", "read_queues": 2, "write_queues": 2,
         "perm": "rw", "type": ""}
    ]  # fmt: skip
    read = csv.DictReader(io.StringIO(commands(*words, "-o", "csv").stdout))
    assert list(read) == [{key: str(value) for key, value in rows[0].items()}]
    yaml = commands(*words, "-o", "yaml").stdout.splitlines()
    assert yaml[0] == '- topic: "cli-forms"'
    pairs = (line[2:].split(": ", 1) for line in yaml)
    assert {key: json.loads(value) for key, value in pairs} == rows[0]
    drawn = commands(*words, "-o", "table").stdout
    assert "read queues" in drawn and "1 topics" in drawn


def test_no_nameserver_is_one_clear_error(rocketmq: ClusterThread) -> None:
    """The address that does not answer is named."""
    result = Commands("127.0.0.1:1")("topic", "list", code=1)
    assert result.stderr.startswith("error: ")
    assert "127.0.0.1:1" in result.stderr
