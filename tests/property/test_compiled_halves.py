"""Half messages and ENDs in runs: compiled code stores and answers what the Python does."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.features.transactions import COMMIT, HALF, ROLLBACK, transactions
from support.send_frames import compact, frame, header
from support.servers.brokers import send_command
from support.servers.twin_brokers import NOW_MS, TwinBrokers, stored, wire_state
from support.wire import Wire, connect, feed

from aerobee.broker.app import Broker
from aerobee.broker.compiled.choice import is_compiled
from aerobee.broker.features.transactions.fast_halves import _UNUSUAL
from aerobee.broker.front.connection import BrokerConnection
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.headers.transactions import EndTransactionRequest
from aerobee.remoting.headers.typed import encode_header

pytestmark = pytest.mark.skipif(not is_compiled(), reason="built without a C compiler")

GROUPS: Final = ("pg", "other", "gr\u00fcppe")
USUAL: Final = "KEYS\x01k1\x02UNIQ_KEY\x01%s\x02TAGS\x01a\x02TRAN_MSG\x01true\x02PGROUP\x01%s\x02"
TEXTS: Final = (
    USUAL,
    "UNIQ_KEY\x01%s\x02TRAN_MSG\x01true\x02name\x01v\u00e9\x01\u4e2d\x02PGROUP\x01%s",
    "XUNIQ_KEY\x01x\x02" + USUAL,
    "A\x01UNIQ_KEY\x01K\x02" + USUAL,
    "REAL\x01x\x02TRAN_\x01DEL POP_\x02MULTI_\x01\x7f\x02" + USUAL,
    "UNIQ_KEY\x01%s\x02TRAN_MSG\x01TRUE\x02PGROUP\x01%s\x02",
    "UNIQ_KEY\x01%s\x02TRAN_MSG\x01false\x02PGROUP\x01%s\x02",
    "UNIQ_KEY\x01%s\x02PGROUP\x01%s\x02",
    "UNIQ_KEY\x01%s\x02TRAN_MSG\x01true\x02TAGS\x01\u00e9\x02PGROUP\x01%s\x02",
    USUAL + "\x02", USUAL + "alone\x02", USUAL + "KEYS\x01again\x02", USUAL + "empty\x01\x02",
    USUAL + "CHECK_IMMUNITY_TIME_IN_SECONDS\x0160\x02", USUAL + "DELAY\x013\x02",
    "y\x01" + "y" * 32_400 + "\x02" + USUAL,
)  # fmt: skip
keys: Final = st.integers(0, 5).map(lambda number: f"K{number}") | st.just("od-d")
halves: Final = st.tuples(
    st.just("half"), keys, st.sampled_from(GROUPS), st.just(USUAL) | st.sampled_from(TEXTS),
    st.sampled_from(["T"] * 5 + ["golden", "U"]), st.sampled_from("0123" * 3 + "9"),
    st.sampled_from(["4"] * 9 + ["5", "0", "12", "8", "20", "2052"]),
    st.sampled_from([b"body", b"x" * 1024, b"", b"y" * 5000]), st.booleans(),
)  # fmt: skip
changes: Final = st.sampled_from(
    [{}] * 8 + [
        {"topic": HALF}, {"topic": None}, {"topic": "golden"}, {"topic": ""}, {"topic": "xT"},
        {"producerGroup": "pg"}, {"producerGroup": "other"}, {"producerGroup": None},
        {"commitLogOffset": "0"},
        {"commitLogOffset": "x"}, {"tranStateTableOffset": "-1"}, {"tranStateTableOffset": "01"},
        {"fromTransactionCheck": "true"}, {"fromTransactionCheck": "perhaps"}, {"more": "x"},
        {"commitOrRollback": "0"}, {"commitOrRollback": "9"}, {"tranStateTableOffset": "9" * 19},
    ]
)  # fmt: skip
outers: Final = st.sampled_from(
    [{}] * 12 + [{"flag": 0}, {"flag": 3}, {"code": 38}, {"remark": "commit"}, {"remark": "a\nb"},
                 {"opaque": 2**40}, {"extFields": {}}]
)  # fmt: skip
ends: Final = st.tuples(
    st.just("end"), st.integers(0, 7), st.sampled_from([COMMIT, COMMIT, ROLLBACK]), changes,
    outers, st.permutations(range(7)), st.sampled_from([b""] * 9 + [b"body"]),
)  # fmt: skip
plain: Final = st.just(("plain",))
reads: Final = st.lists(
    st.lists(st.one_of(halves, halves, ends, ends, ends, plain), min_size=1, max_size=16),
    min_size=2, max_size=6,
)  # fmt: skip


@contextmanager
def running(open_max: str = "1000") -> Iterator[TwinBrokers]:
    """Run a pair whose clocks stand, in which so many transactions may be open."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(
            "aerobee.broker.features.transactions.feature.wall_clock_ms", lambda: NOW_MS
        )
        with TwinBrokers(
            monkeypatch, transactionTimeOut="600000", openTransactionsMax=open_max
        ) as pair:
            pair.each(count_runs)
            yield pair


def count_runs(broker: Broker) -> None:
    """Count the frames that compiled code serves of halves and ENDs."""
    fast = broker.context.writing.halves
    assert fast is not None
    if (serve_run := fast.serve_run) is None:
        return

    def counted(*given: Any) -> tuple[int, int]:
        at, frames = serve_run(*given)
        SERVED[id(broker)] = SERVED.get(id(broker), 0) + frames
        return at, frames

    fast.serve_run = counted


SERVED: Final[dict[int, int]] = {}


@pytest.fixture(scope="module")
def twins() -> Iterator[TwinBrokers]:
    """Run a pair with few transactions that may be open at once."""
    with running("30") as pair:
        yield pair


@pytest.fixture(scope="module")
def calm() -> Iterator[TwinBrokers]:
    """Run a pair that gets so little that its log does not roll."""
    with running() as pair:
        yield pair


def half_frame(key: str, group: str, text: str, topic: str, queue_id: str, flags: str,
               body: bytes, ascii_only: bool) -> bytes:  # fmt: skip
    """Build the send of a half message."""
    fields = send_command(topic=topic, properties=text % (key, group)).ext
    fields = fields | {"e": queue_id, "f": flags}
    return frame(compact(header(fields), ascii_only=ascii_only), body)


def end_frame(place: tuple[int, int], group: str, outcome: int, change: dict[str, Any],
              outer: dict[str, Any], order: Any, body: bytes) -> bytes:  # fmt: skip
    """Build an END of what lies there."""
    fields = {
        "topic": "T", "producerGroup": group, "tranStateTableOffset": str(place[0]),
        "commitLogOffset": str(place[1]), "commitOrRollback": str(outcome),
        "fromTransactionCheck": "false", "bname": "broker-a", **change,
    }  # fmt: skip
    names = list(fields)
    ordered = [names[number] for number in order] + names[7:]
    fields = {name: fields[name] for name in ordered if fields[name] is not None}
    return frame(compact(header(fields, **{"code": 37, "flag": 2, **outer})), body)


def forget(broker: Broker) -> None:
    """Roll back what is open, so that there is room for more."""
    endings = transactions(broker).endings
    for half in list(endings.halves):
        endings.over(half, ROLLBACK)
    broker.context.writing.tick.commit()


class Exchange:
    """One connection to each of both brokers."""

    def __init__(self, twins: TwinBrokers, peer: str = "127.0.0.1") -> None:
        self._twins = twins
        twins.each(forget)
        self.ends: list[tuple[BrokerConnection, Wire]] = []
        self.begin = [broker.store.commit_log.position for broker in twins.brokers]
        self.ends = twins.each(lambda broker: connect(broker, peer))

    def places(self) -> list[tuple[int, int]]:
        """Return offset and position of the newest half messages, the last one first."""
        queue = self._twins.brokers[1].store.find_queue(HALF, 0)
        if queue is None:
            return [(0, 0)]
        newest = range(queue.max_offset - 1, max(-1, queue.max_offset - 32), -1)
        return [(offset, queue.entry(offset)[0]) for offset in newest] or [(0, 0)]

    def data(self, actions: Any) -> bytes:
        """Return the bytes of a read."""
        places, parts = self.places(), []
        for kind, *rest in actions:
            if kind == "plain":
                parts.append(encode_frame(send_command(b"plain")))
            elif kind == "half":
                parts.append(half_frame(*rest))
            else:
                number, *more = rest
                place = places[number % len(places)]
                parts.append(end_frame(place, self._group(place), *more))
        return b"".join(parts)

    def _group(self, place: tuple[int, int]) -> str:
        half = transactions(self._twins.brokers[1]).halves.at(place[0])
        return "pg" if half is None else half.key.group

    def read(self, data: bytes) -> None:
        """Give both a read, and compare what came of it."""
        found = self._twins._runner.run(self._read(data))
        assert found[0] == found[1]

    async def _read(self, data: bytes) -> list[dict[str, Any]]:
        found = []
        for number, broker in enumerate(self._twins.brokers):
            connection, wire = self.ends[number]
            await feed(connection, wire, [data])
            state = {**wire_state(broker, wire), **stored(broker, self.begin[number])}
            found.append({**state, **remembered(broker)})
            self.begin[number] = broker.store.commit_log.position
        return found


def remembered(broker: Broker) -> dict[str, Any]:
    """Return what a broker knows of transactions."""
    found = transactions(broker)
    halves = found.halves
    return {
        "open": list(halves.by_offset.items()),
        "keys": list(halves.by_key.items()),
        "topics": halves.by_topic,
        "outcomes": halves._outcomes,
        "counts": found.endings.counts,
        "pending": list(found.endings.ops.pending),
    }


@given(reads)
@settings(
    max_examples=examples(80), deadline=None,
    suppress_health_check=list(HealthCheck), print_blob=True,
)  # fmt: skip
def test_the_same_is_stored_answered_and_known(twins: TwinBrokers, reads: Any) -> None:
    """Whatever comes in one read: halves, ENDs of earlier ones, plain sends, hostile ones."""
    exchange = Exchange(twins)
    for actions in reads:
        exchange.read(exchange.data(actions))


def served(twins: TwinBrokers, exchange: Exchange, data: bytes) -> int:
    """Return how many frames of a read the compiled code serves."""
    name = id(twins.brokers[0])
    before = SERVED.get(name, 0)
    exchange.read(data)
    return SERVED.get(name, 0) - before


def usual_half(number: int, body: bytes = b"x" * 1024) -> Any:
    """Return the action of a usual half message."""
    return ("half", f"U{number}", "pg", USUAL, "T", str(number % 4), "4", body, True)


def usual_end(back: int, outcome: int = COMMIT) -> Any:
    """Return the action of a usual END."""
    return ("end", back, outcome, {}, {}, range(7), b"")


@pytest.mark.parametrize("peer", ["127.0.0.1", "2001:db8::7"])
def test_usual_ones_are_served_by_compiled_code(peer: str) -> None:
    """All of them, but for the first, and for those where the log or a queue needs a file."""
    numbers, total, all_served = itertools.count(), 0, 0
    with running() as twins:
        exchange = Exchange(twins, peer)
        for turn in range(20):
            actions = [] if not turn else [usual_end(back, (8, 8, 12)[back % 3]) for back in
                                           range(8)]  # fmt: skip
            actions += [usual_half(next(numbers)) for _ in range(8)]
            all_served += served(twins, exchange, exchange.data(actions))
            total += len(actions)
    assert all_served > 0.9 * total


def with_half(twins: TwinBrokers, number: int) -> tuple[Exchange, tuple[int, int]]:
    """Leave one half message open, behind others that ended; return its offset and position too."""
    exchange = Exchange(twins)
    for _ in range(2):  # the first time a queue may need a file
        exchange.read(exchange.data([usual_half(number + 4), usual_half(number)]))
        exchange.read(exchange.data([usual_end(0), usual_end(1)]))
    exchange.read(exchange.data([usual_half(number)]))
    return exchange, exchange.places()[0]


@pytest.mark.parametrize("tail", [b"", b"\n"])
@pytest.mark.parametrize(
    "outer",
    [
        ["code", "extFields", "flag", "language", "opaque", "serializeTypeCurrentRPC", "version"],
        ["code", "language", "version", "opaque", "flag", "remark", "extFields"],  # Go
        ["code", "flag", "extFields"],
    ],
)
def test_the_forms_of_clients_are_not_declined(
    calm: TwinBrokers, outer: list[str], tail: bytes
) -> None:
    """Java, Go and C++ write the same names in orders of their own."""
    exchange, (offset, position) = with_half(calm, 4000)
    fields = {
        "bname": "", "commitLogOffset": str(position), "commitOrRollback": "8",
        "fromTransactionCheck": "false", "msgId": "0A", "producerGroup": "pg",
        "tranStateTableOffset": str(offset), "transactionId": "U4000",
    }  # fmt: skip
    whole = header(fields, code=37, flag=2, remark="")
    text = compact({name: whole[name] for name in outer}) + tail
    assert served(calm, exchange, frame(text, b"")) == 1


def test_what_our_client_writes_is_not_declined(calm: TwinBrokers) -> None:
    """Its ENDs are requests like others."""
    exchange, (offset, position) = with_half(calm, 4100)
    fields = EndTransactionRequest(
        topic="T", producer_group="pg", tran_state_table_offset=offset,
        commit_log_offset=position, commit_or_rollback=COMMIT, msg_id="0A",
        transaction_id="U4100", broker_name="broker-a",
    )  # fmt: skip
    command = Command(RequestCode.END_TRANSACTION, encode_header(fields), flag=2, opaque=9)
    assert served(calm, exchange, encode_frame(command)) == 1


def test_an_end_that_comes_twice_in_a_read_ends_once(twins: TwinBrokers) -> None:
    """The second one meets what the first has left."""
    exchange = Exchange(twins)
    exchange.read(exchange.data([usual_half(1000), usual_half(1001)]))
    exchange.read(exchange.data([usual_end(0), usual_end(0), usual_end(0, ROLLBACK)]))
    exchange.read(exchange.data([usual_half(1001), usual_half(1001), usual_end(0)]))


@pytest.mark.parametrize(
    "change", [{"producerGroup": "other"}, {"topic": "golden"}, {"topic": "xT"},
               {"commitLogOffset": "1"}, {"commitLogOffset": "-5"}],
)  # fmt: skip
def test_an_end_may_touch_its_own_half_alone(calm: TwinBrokers, change: dict[str, str]) -> None:
    """Its group, topic and position are those of the open half; others are declined."""
    exchange, _ = with_half(calm, 5000)
    action: Any = ("end", 0, COMMIT, change, {}, range(7), b"")
    assert served(calm, exchange, exchange.data([action])) == 0


def test_what_is_not_kept_is_read_from_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little is kept, the same is committed."""
    monkeypatch.setattr("aerobee.broker.features.transactions.fast_halves.KEPT_BYTES_MAX", 4000)
    with running() as twins:
        exchange = Exchange(twins)
        for turn in range(5):
            exchange.read(exchange.data([usual_half(10 * turn + number) for number in range(8)]))
            exchange.read(exchange.data([usual_end(back) for back in range(8)]))
        assert len(transactions(twins.brokers[0]).halves) == 0


@pytest.mark.parametrize("name", sorted(_UNUSUAL))
def test_names_that_mean_something_are_declined(twins: TwinBrokers, name: str) -> None:
    """Each of them, wherever it stands."""
    for text in (f"{name}\x015\x02{USUAL}", f"{USUAL}{name}\x015"):
        exchange = Exchange(twins)
        exchange.read(exchange.data([usual_half(2000)]))  # what follows may be a half
        action = ("half", f"N{name}".replace("_", ""), "pg", text, "T", "1", "4", b"x", True)
        assert served(twins, exchange, exchange.data([action])) == 0
        exchange.read(exchange.data([usual_end(0, ROLLBACK), usual_end(1, ROLLBACK)]))


def test_whichever_byte_of_an_end_differs_it_is_told_alike() -> None:
    """What is almost an END in the usual form."""
    with running() as twins:
        exchange = Exchange(twins)
        exchange.read(exchange.data([usual_half(3000)]))
        usual = exchange.data([usual_end(0)])[8:]
        for at in range(0, len(usual), 3):
            for change in (b"", b"0", b'"', b"}"):
                exchange.read(exchange.data([usual_half(3001 + at)]))
                text = exchange.data([usual_end(0)])[8:]
                exchange.read(frame(text[:at] + change + text[at + 1 :], b""))
