"""Questions of brokers wait in bounded memory, and one that hangs holds up no other."""

import asyncio
from typing import Any

import pytest
from support.waiting import until

from aerobee.client import (
    MessageQueue,
    ReceivedMessage,
    TransactionListener,
    TransactionSettings,
    TransactionState,
)
from aerobee.client.cluster.decoding import decode_messages
from aerobee.client.transactions.checks import Check, Checks
from aerobee.remoting.errors import ConnectionLost
from aerobee.remoting.headers.transactions import CheckTransactionStateRequest
from aerobee.remoting.message.record import Record, encode_record
from aerobee.remoting.net.connection import Connection


def check(message_id: str, *, offset: int = 0, body: bytes = b"x", broker: str = "b:1") -> Check:
    """Return a question of a broker about one message."""
    record = Record(topic="t", body=body, properties=f"UNIQ_KEY\x01{message_id}\x02".encode())
    (message,) = decode_messages(encode_record(record), MessageQueue("t", "b", 0))
    connection = Connection(lambda *_: None)
    connection.remote = broker
    asked = CheckTransactionStateRequest(tran_state_table_offset=offset, commit_log_offset=offset)
    return Check(asked, message, connection)


class Desk(TransactionListener):
    """A listener that waits until a test lets it go on, and who answers brokers."""

    def __init__(self, **settings: Any) -> None:
        self.asked: list[str] = []
        self.answered: list[tuple[str, int, TransactionState]] = []
        self.remarks: list[str | None] = []
        self.go_on = asyncio.Event()
        self.hanging: set[str] = set()
        self.at_work = self.at_work_max = 0
        self.checks = Checks(self, TransactionSettings(**settings), self.answer)

    async def check(self, message: ReceivedMessage) -> TransactionState:
        """Commit, when the test says so."""
        self.asked.append(message.message_id)
        self.at_work += 1
        self.at_work_max = max(self.at_work_max, self.at_work)
        try:
            await (asyncio.sleep(60) if message.message_id in self.hanging else self.go_on.wait())
        finally:
            self.at_work -= 1
        return TransactionState.COMMIT

    async def answer(self, check: Check, state: TransactionState, remark: str | None) -> None:
        """Note it."""
        self.answered.append((check.message.message_id, check.asked.commit_log_offset, state))
        self.remarks.append(remark)


async def test_a_few_are_answered_at_a_time() -> None:
    """All of them in the end, in the order in which they came."""
    desk = Desk(check_concurrency=3)
    for at in range(20):
        desk.checks.add(check(f"{at:02}"))
    await until(lambda: len(desk.asked) == 3)
    desk.go_on.set()
    await until(lambda: len(desk.answered) == 20)
    assert desk.at_work_max == 3
    assert desk.asked == [f"{at:02}" for at in range(20)]
    await desk.checks.close()


async def test_one_that_hangs_is_unknown_and_holds_up_no_other() -> None:
    """After its time the broker hears that nobody knows."""
    desk = Desk(check_concurrency=2, check_timeout_ms=50)
    desk.hanging.add("hangs")
    desk.go_on.set()
    for name in ("hangs", "a", "b", "c"):
        desk.checks.add(check(name))
    await until(lambda: len(desk.answered) == 4)
    states = {name: state for name, _, state in desk.answered}
    assert [name for name, _, _ in desk.answered][-1] == "hangs"
    assert states["hangs"] is TransactionState.UNKNOWN
    assert {states[name] for name in "abc"} == {TransactionState.COMMIT}
    assert desk.remarks[-1] == "check raised TimeoutError: "
    await desk.checks.close()


@pytest.mark.parametrize(
    ("settings", "body", "kept"),
    [
        ({"checks_waiting_max": 5}, b"x", 5),
        ({"checks_waiting_bytes_max": 3_000}, bytes(900), 3),
        ({"checks_waiting_bytes_max": 10}, bytes(900), 1),  # one of any size is let in
    ],
)
async def test_what_there_is_no_room_for_is_dropped(
    settings: dict[str, int], body: bytes, kept: int
) -> None:
    """The broker asks again; there is room again when those that wait are answered."""
    desk = Desk(check_concurrency=1, **settings)
    desk.checks.add(check("first"))
    await until(lambda: desk.asked)
    for at in range(50):
        desk.checks.add(check(f"{at:02}", body=body))
    desk.go_on.set()
    await until(lambda: len(desk.answered) == 1 + kept)
    assert [name for name, _, _ in desk.answered] == ["first", *(f"{at:02}" for at in range(kept))]
    desk.checks.add(check("later", body=body))
    await until(lambda: len(desk.answered) == 2 + kept)
    await desk.checks.close()


async def test_the_latest_question_is_answered() -> None:
    """A broker that asks again has put the half message elsewhere; two brokers are two matters."""
    desk = Desk(check_concurrency=1)
    desk.checks.add(check("running", offset=1))
    desk.checks.add(check("waiting", offset=1))
    await until(lambda: desk.asked)
    for offset in (2, 3):
        desk.checks.add(check("running", offset=offset))
        desk.checks.add(check("waiting", offset=offset))
    desk.checks.add(check("running", offset=9, broker="b:2"))
    desk.go_on.set()
    await until(lambda: len(desk.answered) == 3)
    assert [(name, offset) for name, offset, _ in desk.answered] == [
        ("running", 3),
        ("waiting", 3),
        ("running", 9),
    ]
    await desk.checks.close()


async def test_an_answer_that_cannot_be_sent_is_no_end() -> None:
    """The next question is answered all the same."""

    class Deaf(Desk):
        async def answer(self, check: Check, state: TransactionState, remark: str | None) -> None:
            await super().answer(check, state, remark)
            raise ConnectionLost("gone")

    desk = Deaf(check_concurrency=1)
    desk.go_on.set()
    for name in ("a", "b"):
        desk.checks.add(check(name))
    await until(lambda: len(desk.answered) == 2)
    await desk.checks.close()


async def test_a_close_cancels_and_forgets() -> None:
    """Nothing is answered by who is leaving."""
    desk = Desk(check_concurrency=2)
    for at in range(9):
        desk.checks.add(check(str(at)))
    await until(lambda: desk.at_work == 2)
    await desk.checks.close()
    assert (desk.at_work, desk.answered, len(desk.asked)) == (0, [], 2)
    desk.checks.add(check("too late"))
    await asyncio.sleep(0)
    assert len(desk.asked) == 2
