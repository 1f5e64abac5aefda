"""Pulls that come again, answered by compiled code, against the Python that defines them."""

import json
import random
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.examples import examples
from support.pull_frames import pull, pulls, sends
from support.pull_troubles import trouble
from support.repeated_pulls import Repeated, counted, pair, same, sure
from support.send_frames import compact, frame
from support.servers.brokers import pull_command
from support.servers.twin_brokers import TwinBrokers
from support.wire import connect, feed

from aerobee.broker.app import Broker
from aerobee.broker.compiled.choice import is_compiled
from aerobee.remoting.codes import PullSysFlag

pytestmark = pytest.mark.skipif(not is_compiled(), reason="built without a C compiler")

COMMITS: Final = PullSysFlag.SUBSCRIPTION | PullSysFlag.COMMIT_OFFSET
KINDS: Final[list[dict[str, Any]]] = [
    {},
    {"expression": "TagA"},
    {"expression": "TagA || TagB", "consumerGroup": "H"},
    {"sysFlag": int(COMMITS)},
    {"maxMsgNums": 1, "consumerGroup": "H"},
    {"code": 361},
    {"maxMsgBytes": 700},
    {"AEROBEE_FULL_REPLY": "true"},
    {"consumerGroup": "I", "sysFlag": int(COMMITS), "topic": "golden"},
    {"consumerGroup": "M", "sysFlag": 0, "subscription": ""},
    {"suspend_ms": 0, "expression": "nothing"},
]


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> Repeated:
    """Count what compiled code answers."""
    return counted(monkeypatch)


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch, repeated: Repeated) -> Iterator[TwinBrokers]:
    """A pair that is counted."""
    with pair(monkeypatch) as brokers:
        yield brokers


kinds = st.sampled_from(KINDS)
queue_ids = st.integers(0, 1)
offsets = st.one_of(st.integers(0, 250), st.sampled_from([-1, 10**6, 10**17, 10**18]))
steps = st.one_of(
    st.tuples(st.just("pull"), kinds, st.lists(offsets, min_size=1, max_size=8), queue_ids),
    st.tuples(st.just("pull"), kinds, st.lists(st.integers(0, 60), min_size=3), queue_ids),
    st.tuples(st.just("send"), st.integers(1, 30), queue_ids, st.sampled_from(["TagA", "TagB"])),
    st.tuples(
        st.just("do"),
        st.sampled_from(
            ["reset", "delete", "perm", "queues", "group", "counts", "settings", "sync", "retain",
             "slave", "members", "forget", "broadcast", "join", "leave", "forbid", "maps"]
        ),
        st.integers(0, 60),
    ),
)  # fmt: skip


def take(twins: TwinBrokers, step: tuple[Any, ...]) -> None:
    """Do one step to both."""
    if step[0] == "pull":
        _, kind, places, queue_id = step
        same(twins, pulls(places, queue_id=queue_id, **kind))
    elif step[0] == "send":
        same(twins, sends(step[1], step[2], step[3]))
    else:
        twins.each(lambda broker: trouble(broker, step[1], step[2]))


@settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
@given(st.lists(steps, min_size=5, max_size=40))
def test_any_life_is_answered_alike(
    twins: TwinBrokers, repeated: Repeated, life: list[tuple[Any, ...]]
) -> None:
    """Sends, pulls, and all that changes what pulls may read, in any order."""
    for tag in ("TagA", "TagB", "TagA"):
        same(twins, sends(20, 0, tag) + sends(10, 1, tag) + sends(5, 0, tag, "golden"))
    for step in life:
        take(twins, step)


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_pulls_that_come_again_are_answered_at_once(
    twins: TwinBrokers, repeated: Repeated, kind: dict[str, Any]
) -> None:
    """All of one read, whatever their offsets and opaques."""
    take(twins, ("do", "join", 0))
    same(twins, sends(60, topic=kind.get("topic", "T")))
    sure(twins, repeated, pulls([1, 30, 2, 2, 17], **kind), 5)


@pytest.mark.parametrize(
    "changes",
    [
        [("join", 1)], [("join", 3)], [("leave", 0)], [("forbid", 0)], [("perm", 1), ("perm", 0)],
        [("group", 5), ("group", 6)], [("queues", 0), ("queues", 3)], [("delete", 0)],
        [("broadcast", 2)], [("maps", 0)], [("sync", 0)], [("settings", 0)], [("forget", 0)],
    ],
    ids=lambda changes: str(changes[0][0]),
)  # fmt: skip
def test_a_change_is_noticed_by_pulls_that_came_before(
    twins: TwinBrokers, repeated: Repeated, changes: list[tuple[str, int]]
) -> None:
    """What was checked once holds no longer, of a member's subscription, too."""
    take(twins, ("do", "join", 0))
    same(
        twins, b"".join(sends(40, queue_id, tag) for queue_id in (0, 1) for tag in ("TagA", "TagB"))
    )
    kinds = [*KINDS[:3], KINDS[-2]]
    data = b"".join(pulls([3, 20, 35], **kind) + pulls([5], queue_id=1, **kind) for kind in kinds)
    sure(twins, repeated, data, 16)
    for change in changes:
        take(twins, ("do", *change))
        same(twins, data)
        same(twins, sends(3) + data)


def test_pulls_of_several_kinds_are_answered_in_one_run(
    twins: TwinBrokers, repeated: Repeated
) -> None:
    """They take turns within a read, and so do sends."""
    same(twins, sends(60) + sends(60, 1))
    data = b"".join(pulls([3, 20], **kind) + pulls([5], queue_id=1) for kind in KINDS[:5])
    sure(twins, repeated, data + sends(2) + data, 30)


def test_nothing_is_read_from_a_file_that_memory_alone_has(
    twins: TwinBrokers, repeated: Repeated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file ends with the last round; memory has what is newer, and some before that."""
    monkeypatch.setattr("aerobee.storage.queues.consume_queue.TAIL_ENTRIES_MAX", 64)
    same(twins, sends(150))
    twins.each(lambda broker: trouble(broker, "sync", 0))
    same(twins, sends(20))
    for kind in KINDS[:3]:
        sure(twins, repeated, pulls([0, 127, 128, 151, 152], **kind), 5)


def test_many_lives_by_chance(twins: TwinBrokers, repeated: Repeated) -> None:
    """A long life in which most pulls are answered by compiled code."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    troubles = (
        "reset", "delete", "perm", "queues", "group", "counts", "settings", "sync", "retain"
    )  # fmt: skip
    for _ in range(150):
        same(twins, sends(rng.randrange(1, 12), rng.randrange(2), rng.choice(("TagA", "TagB"))))
        kind = rng.choice(KINDS)
        places = [rng.randrange(0, 200) for _ in range(rng.randrange(1, 9))]
        for _ in range(rng.choice((1, 3))):
            same(twins, pulls(places, queue_id=rng.randrange(2), **kind))
        if rng.random() < 0.3:
            what = rng.choice(troubles)
            take(twins, ("do", what, rng.randrange(60)))
            if what in ("perm", "group", "queues"):
                take(twins, ("do", what, 3 if what == "queues" else 18))
    assert repeated.pulls > 100


USUAL: Final = pull_command(7).ext


def header(text: bytes) -> bytes:
    """Return a frame with a header alone."""
    return frame(text, b"")


def pull_header(fields: dict[str, Any], **outer: Any) -> dict[str, Any]:
    """Return a pull's header as a value."""
    return {"code": 11, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": 7,
            "serializeTypeCurrentRPC": "JSON", "version": 477, **outer}  # fmt: skip


def hostile(offset: int, opaque: int) -> list[bytes]:
    """Return headers with numbers in the wrong places, all of which are JSON."""
    plain = compact(pull_header({**USUAL, "queueOffset": str(offset)}, opaque=opaque))
    inner = b'"x":{"queueOffset":"%d","opaque":%d},' % (offset, opaque)
    quoted = json.dumps(f'"queueOffset":"{offset}","opaque":{opaque}').encode()
    again = b',"queueOffset":"%d"' % (offset + 1)
    return [
        plain,
        plain.replace(b"{", b"{" + inner, 1),
        plain.replace(b'"extFields":{', b'"extFields":{"a":' + quoted + b","),
        plain.replace(b'"extFields":{', b'"extFields":{"\\"queueOffset":"%d",' % offset),
        plain.replace(b'"topic"', b'"queueOffset":"%d","topic"' % offset),
        plain.replace(b'},"flag"', again + b'},"flag"'),
        plain.replace(b'},"flag"', again.replace(b"O", b"\\u004f") + b'},"flag"'),
        plain.replace(b'},"flag"', b',"queueOffs\\u0065t":"3"},"flag"'),
        plain.replace(b'},"flag"', b',"queueOffset":"3"},"flag"'),
        plain.replace(b'},"flag"', b',"commitOffs\\u0065t":"0"},"flag"'),
        plain.replace(b"}", b'},"opaqu\\u0065":10', 1),
        plain.replace(b'"flag":0', b'"flag":0,"opaqu\\u0065":10'),
        plain.replace(b"}", b'},"opaque":%d' % (opaque + 9), 1),
        plain.replace(b'"opaque":%d,' % opaque, b"").replace(
            b'"extFields":{', b'"extFields":{"opaque":%d,' % opaque
        ),
        plain.replace(b'"extFields":{', b'"extFields":{"opaque":"%d",' % opaque),
        plain.replace(b'"opaque":%d' % opaque, b'"opaque":%d.0' % opaque),
        plain.replace(b'"opaque":%d' % opaque, b'"opaque":0%d' % opaque),
        plain.replace(b'"queueOffset":"', b'"queueOffset":"0'),
        plain.replace(b'"queueOffset":"', b'"queueOffset":"+'),
        plain.replace(b'"queueOffset":', b'"queueOffset": '),
        plain.replace(b'"commitOffset":"0"', b'"commitOffset":"-5"'),
        plain.replace(b'"flag":0', b'"flag":2'),
        plain.replace(b'"code":11', b'"code":361'),
        plain.replace(b"}", b"} ", 1),
        plain + b"x",
        plain + b" " * 1024,
    ]


def test_headers_that_imitate_a_known_one_mean_what_they_mean(
    twins: TwinBrokers, repeated: Repeated
) -> None:
    """Whatever they have twice, nested, quoted or escaped, they are answered as by Python."""
    same(twins, sends(60))
    for offset, opaque in ((3, 10), (4, 11), (40, 1200), (5, 7), (0, 2**31 - 1)):
        for text in hostile(offset, opaque):
            same(twins, header(text))
            same(twins, header(text) + header(text))
        same(twins, b"".join(map(header, hostile(offset + 1, opaque + 1))))
    assert repeated.pulls > 20


def test_mutated_headers_mean_what_they_mean(twins: TwinBrokers, repeated: Repeated) -> None:
    """Known headers with wrong bytes are never taken for what they were."""
    same(twins, sends(60))
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng, data = random.Random(seed), [pulls([9 + n], **kind) for n, kind in enumerate(KINDS[:5])]
    for _ in range(3):
        same(twins, b"".join(data))
    for _ in range(400):
        changed = bytearray(rng.choice(data))
        for _ in range(rng.choice((0, 1, 1, 2))):
            at = rng.randrange(8, len(changed))
            if rng.random() < 0.5:
                changed[at] = rng.choice(b'0123456789"\\{}:,- ')
            else:
                low = rng.randrange(8, len(changed) - 4)
                changed[at : at + 4] = changed[low : low + 4][: len(changed) - at]
        same(twins, bytes(changed) + rng.choice(data))
    assert repeated.pulls > 250


def test_a_reset_is_told_before_anything_is_read(twins: TwinBrokers, repeated: Repeated) -> None:
    """Pulls are known, and yet the next one is sent elsewhere."""
    same(twins, sends(60))
    data = pulls([1, 30, 2])
    sure(twins, repeated, data, 3)
    twins.each(lambda broker: broker.context.tables.offsets.reset("G", "T", 0, 11))
    before = repeated.pulls
    same(twins, data)
    assert repeated.pulls - before == 2, "those behind the one that was told"


def test_a_hook_sees_every_pull(twins: TwinBrokers, repeated: Repeated) -> None:
    """Nothing is answered beside it."""
    same(twins, sends(60))
    sure(twins, repeated, pulls([1, 30]), 2)
    seen: list[int] = []
    twins.each(lambda broker: broker.hooks.add(after_pull=lambda event: seen.append(event.offset)))
    same(twins, pulls([1, 30]))
    assert seen == [1, 30, 1, 30]


def test_turns_end_alike(monkeypatch: pytest.MonkeyPatch, repeated: Repeated) -> None:
    """By frames and by bytes of replies; nobody is served more than one by one."""
    with TwinBrokers(monkeypatch, framesPerTurnMax="3") as pair:
        for _ in range(20):
            same(pair, sends(3))
        sure(pair, repeated, pulls(list(range(8))), 8)

        def written(broker: Broker) -> int:
            limits = broker.context.front.traffic.limits
            fewer = replace(limits, frames_per_turn_max=99, reply_bytes_per_turn_max=50_000)
            broker.context.front.traffic.limits = fewer
            connection, wire = connect(broker)
            connection.data_received(pulls(list(range(11))))
            broker.context.writing.tick.commit()
            return len(wire.written)

        compiled, python = pair.each(written)
        assert compiled == python
        assert 50_000 < compiled < 100_000


def test_known_pulls_are_bounded_and_the_used_ones_stay(
    twins: TwinBrokers, repeated: Repeated
) -> None:
    """Ten thousand kinds come; who pulls on is known all the time."""
    same(twins, sends(10))
    broker = twins.brokers[0]
    steady = pulls([1])
    for _ in range(3):
        same(twins, steady)

    async def many() -> None:
        for begin in range(0, 10_000, 50):
            data = b"".join(pull(1, subVersion=number) for number in range(begin, begin + 50))
            for _ in range(2):
                await feed(*connect(broker), [data])
            before = repeated.pulls
            await feed(*connect(broker), [steady])
            assert repeated.pulls == before + 1

    twins._runner.run(many())
    known = broker.context.pulls.server._repeats._repeated
    assert known is not None and 4096 <= len(known) <= 8192
