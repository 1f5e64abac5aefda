"""Every member computes the same shares as RocketMQ's Java classes do."""

import random
from pathlib import Path

import pytest
from support.examples import examples
from support.java_random import JavaRandom

from aerobee.client import InvalidUse
from aerobee.client.group.strategies import (
    Averagely,
    AveragelyByCircle,
    ByConfig,
    ByMachineRoom,
    ConsistentHash,
    MachineRoomNearby,
    Strategy,
)
from aerobee.client.message import MessageQueue
from aerobee.remoting.allocation import sorted_members, sorted_queues

GOLDEN = Path(__file__).parents[3] / "golden" / "balance"
EVEN: dict[str, Strategy] = {each.name: each for each in (Averagely(), AveragelyByCircle())}
CHECKED: dict[str, Strategy] = {
    **EVEN,
    "CONSISTENT_HASH": ConsistentHash(),
    "MACHINE_ROOM": ByMachineRoom(["broker-a"]),
    "MACHINE_ROOM_NEARBY-AVG": MachineRoomNearby(
        Averagely(), room_of_queue=lambda queue: "r", room_of_client=lambda client_id: "r"
    ),
}
OWNERS = "0123456789abcdefghijklmnopqrstuvwxyz"
BROKERS = [
    *("broker-a", "broker-b", "room1@b", "room2@b", "room0@a", "a@b@c", "@x", "x@", "room1@b@@"),
    *("Ünï", "中文", "😀b", "\uff21b", "b 1", "b|;:", "%RETRY%x", "broker-a10", "broker-a9"),
]
CLIENTS = ["pid#1", "DEFAULT", "é", "😀", "\uff21", "", "@STREAM", "unit@x", "9", "10"]


def shape(seed: int) -> tuple[list[MessageQueue], list[str], int]:
    """Make queues, client ids and a number of virtual nodes, as Shapes.java does."""
    below = JavaRandom(seed).below
    topic = "%RETRY%g" if below(4) == 0 else f"t{below(50)}"
    queues: set[MessageQueue] = set()
    for _ in range(1 + below(4)):
        name = BROKERS[below(len(BROKERS))]
        queues.update(MessageQueue(topic, name, number) for number in range(1 + below(9)))
    members = {
        f"10.0.0.{below(300)}@{CLIENTS[below(len(CLIENTS))]}{below(1000)}"
        for _ in range(1 + below(16))
    }
    return sorted_queues(queues), sorted_members(members), below(30)


def strategies(virtual_nodes: int) -> list[Strategy]:
    """Return the strategies in the order of the table's columns."""

    def room_of_queue(queue: MessageQueue) -> str:
        return queue.broker_name[:5] if queue.broker_name.startswith("room") else "else"

    def room_of_client(client_id: str) -> str:
        return f"room{len(client_id.encode('utf-16-be')) // 2 % 3}"

    return [
        Averagely(),
        AveragelyByCircle(),
        ConsistentHash(),
        ConsistentHash(virtual_nodes),
        ByMachineRoom(["room1", "room2", "", "a"]),
        *(
            MachineRoomNearby(inner, room_of_queue=room_of_queue, room_of_client=room_of_client)
            for inner in (Averagely(), ConsistentHash())
        ),
    ]


def owners(strategy: Strategy, queues: list[MessageQueue], members: list[str]) -> str:
    """Write who owns each queue, as the table does."""
    owner = dict.fromkeys(queues, "-")
    for at, member in enumerate(members):
        for queue in strategy.allocate("g", member, queues, members):
            assert owner[queue] == "-", "two owners"
            owner[queue] = OWNERS[at]
    return "".join(owner.values())


def test_shares_are_those_of_java_for_every_shape() -> None:
    """Random topics and groups, with odd names, more members than queues, many brokers.

    Of 3,000 some are drawn for each run.
    """
    text = (GOLDEN / "shapes.txt").read_text()
    rows = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(rows) == 3000
    for seed in random.sample(range(3000), min(3000, examples(600))):
        queues, members, virtual_nodes = shape(seed)
        got = [owners(each, queues, members) for each in strategies(virtual_nodes)]
        assert got == rows[seed].split(" "), f"seed {seed}"


@pytest.mark.parametrize("strategy", CHECKED.values(), ids=CHECKED)
def test_who_is_not_listed_gets_nothing(
    strategy: Strategy, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that the broker does not list owns no queue, and the log says so."""
    caplog.set_level("INFO")
    queues = [MessageQueue("t", "broker-a", number) for number in range(4)]
    assert strategy.allocate("g", "me", queues, ["other"]) == []
    assert "no member yet group=g client=me members=['other']" in caplog.text


@pytest.mark.parametrize("strategy", EVEN.values(), ids=EVEN)
def test_every_queue_has_one_owner(strategy: Strategy) -> None:
    """For random shapes the shares cover all the queues once and differ by one at most."""
    seed = random.randrange(1 << 32)
    print(f"seed={seed}")
    choose = random.Random(seed)
    for _ in range(300):
        queues = [MessageQueue("t", "broker-a", number) for number in range(choose.randrange(70))]
        members = [f"10.0.0.{number}@x" for number in range(choose.randrange(1, 30))]
        shares = [strategy.allocate("g", member, queues, members) for member in members]
        assert sorted(queue for share in shares for queue in share) == queues
        sizes = [len(share) for share in shares]
        assert max(sizes) - min(sizes) <= 1


def test_configured_queues_are_ours_whoever_is_there() -> None:
    """Even for a client that is not listed."""
    mine = [MessageQueue("t", "broker-a", 3)]
    assert ByConfig(mine).allocate("g", "me", [], ["other"]) == mine


def test_a_ring_without_places_gives_nothing() -> None:
    """No virtual nodes are allowed, fewer are not."""
    queues = [MessageQueue("t", "broker-a", 0)]
    assert ConsistentHash(0).allocate("g", "me", queues, ["me"]) == []
    with pytest.raises(InvalidUse, match="virtual_nodes=-1"):
        ConsistentHash(-1)


@pytest.mark.parametrize("lost", ["queue", "client"])
def test_a_room_that_is_not_known_is_an_error(lost: str) -> None:
    """As in Java: nothing is shared out by guessing."""
    strategy = MachineRoomNearby(
        Averagely(),
        room_of_queue=lambda queue: "" if lost == "queue" else "r",
        room_of_client=lambda client_id: "" if lost == "client" else "r",
    )
    with pytest.raises(InvalidUse, match="no machine room is known of"):
        strategy.allocate("g", "me", [MessageQueue("t", "broker-a", 0)], ["me"])
