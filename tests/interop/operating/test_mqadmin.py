"""All commands of mqadmin 5.5.0 print of our brokers what they print of RocketMQ's.

Each cluster has a nameserver and three brokers; one JVM runs the commands. What differs on purpose
stands in `support/interop/mqadmin_differences.py`, with the reason.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.mqadmin import MqAdmin, several_brokers
from support.interop.mqadmin_differences import DIFFERENCES, comparable, lines
from support.interop.mqadmin_plan import OWN, labels, transcript
from support.interop.rocketmq_server import RocketMQ

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(900)]

TOO_LATE: Final = "RemotingTimeoutException"
TRIES_MAX: Final = 3
COMMANDS = [label for label in labels() if label.split("-")[0] not in OWN]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, list[str]]]]:
    """What each command printed, by kind of server."""
    yield {
        kind.name: _run(kind, tmp_path_factory.mktemp(kind.name)) for kind in (RocketMQ, Aerobee)
    }


def _run(kind: type[Cluster], folder: Path) -> dict[str, list[str]]:
    """Run the plan against a cluster.

    Where a broker of RocketMQ's keeps its own tool waiting for longer than that does, as a JVM may
    on a busy machine, there is nothing to compare with: the plan is run again.
    """
    for number in range(TRIES_MAX):
        place = folder / str(number)
        place.mkdir()
        first = kind(place / "cluster", settings={"maxLmqConsumeQueueNum": "20000"})
        with several_brokers(first) as brokers, MqAdmin(place) as admin:
            done = list(transcript(brokers, admin, place))
        if kind is Aerobee or not any(TOO_LATE in each.printed.text for each in done):
            break
    return {each.label: lines(each.printed.text, brokers, place) for each in done}


@pytest.mark.parametrize("label", COMMANDS)
def test_a_command_prints_what_it_prints_of_rocketmq(
    printed: dict[str, dict[str, list[str]]], label: str
) -> None:
    """But for the lines that are listed."""
    ours, theirs = comparable(printed["aerobee"][label], printed["rocketmq"][label], label)
    assert ours == theirs


def test_what_is_listed_is_printed(printed: dict[str, dict[str, list[str]]]) -> None:
    """A difference that is none any more must go as well."""
    for difference in DIFFERENCES:
        both = [line for kind in printed.values() for line in kind[difference.label]]
        assert any(re.search(difference.line, line) for line in both), difference


def test_all_commands_are_run(tmp_path: Path) -> None:
    """Those that the program itself lists."""
    with MqAdmin(tmp_path) as admin:
        listed = re.findall(r"^ {3}(\w+) {2,}", admin.run([]).text, re.MULTILINE)
    assert len(listed) == 96
    assert {label.split("-")[0] for label in COMMANDS} == set(listed)
