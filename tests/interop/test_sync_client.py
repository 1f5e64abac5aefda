"""Our client without `await` against ours and the real RocketMQ 5.5.0."""

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.rocketmq_server import RocketMQ

from aerobee.client.sync import (
    ConsumeFrom,
    LitePullConsumer,
    Message,
    NoReply,
    Producer,
    PushConsumer,
    ReceivedMessage,
    ReplierRefused,
    RequestProducer,
    TransactionListener,
    TransactionProducer,
    TransactionSettings,
    TransactionState,
)

pytestmark = [pytest.mark.interop, pytest.mark.needs("java")]

SECONDS_MAX = 60  # that anything may take on a busy machine
TIMEOUT_MS = 30_000


@pytest.fixture(scope="module", params=[Aerobee, RocketMQ], ids=["aerobee", "rocketmq"])
def namesrv(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The nameserver of a cluster with one broker."""
    kind: type[Cluster] = request.param
    with kind(tmp_path_factory.mktemp("sync-client")) as cluster:
        yield cluster.namesrv


def new_topic() -> str:
    """Return a name that no other test uses."""
    return f"sync-{uuid.uuid4().hex[:12]}"


def wait_until(condition: Callable[[], object]) -> None:
    """Return as soon as `condition()` is true."""
    deadline_s = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_what_threads_send_is_handled_and_polled(namesrv: str) -> None:
    """Each of 1,600 messages from eight threads, once, by a push and a lite pull consumer."""
    topic, got = new_topic(), Counter[bytes]()
    with Producer("sync-producers", namesrv=namesrv) as producer:
        producer.send(Message(topic, b"first", tags="t"), key="k")

        def send(number: int) -> None:
            for at in range(100):
                producer.send(Message(topic, b"%d-%d" % (number, at), tags="t"))
            soon = [
                producer.send_soon(Message(topic, b"%d+%d" % (number, at))) for at in range(100)
            ]
            assert all(handle.result(TIMEOUT_MS).queue_offset >= 0 for handle in soon)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(send, range(8)))
        producer.send_oneway(Message(topic, b"one-way"))
        producer.send_many([Message(topic, b"batch-%d" % at) for at in range(10)])
        producer.send(Message(topic, b"later"), delay=timedelta(seconds=1))
    total = 1 + 1_600 + 1 + 10 + 1

    def handle(message: ReceivedMessage) -> None:
        got[message.body] += 1

    push = PushConsumer(f"{topic}-push", namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    push.subscribe(topic, handle)
    with push:
        wait_until(lambda: len(got) == total)
    assert set(got.values()) == {1}
    polled = Counter[bytes]()
    lite = LitePullConsumer(f"{topic}-lite", namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    lite.subscribe(topic)
    with lite:
        while len(polled) < total:
            batch = lite.poll(TIMEOUT_MS)
            assert batch
            polled.update(message.body for message in batch)
    assert polled == got


def test_requests_are_answered_from_handlers(namesrv: str) -> None:
    """From several threads at a time; a refusal and a silence are told apart."""
    topic = new_topic()
    with RequestProducer("sync-askers", namesrv=namesrv) as producer:
        producer.send(Message(topic, b"silence"))

        def handle(request: ReceivedMessage) -> None:
            if request.body.startswith(b"ask"):
                producer.reply(request, b"re: " + request.body)
            elif request.body == b"refuse":
                producer.reply(request, b"-", refusal="no such fruit")

        consumer = PushConsumer(f"{topic}-group", namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
        consumer.subscribe(topic, handle)
        with consumer:

            def ask(number: int) -> bytes:
                question = Message(topic, b"ask %d" % number)
                return producer.request(question, timeout_ms=TIMEOUT_MS).body

            with ThreadPoolExecutor(4) as pool:
                answers = list(pool.map(ask, range(20)))
            assert answers == [b"re: ask %d" % number for number in range(20)]
            with pytest.raises(ReplierRefused, match="no such fruit"):
                producer.request(Message(topic, b"refuse"), timeout_ms=TIMEOUT_MS)
            with pytest.raises(NoReply):
                producer.request(Message(topic, b"nothing"), timeout_ms=3_000)


class Listener(TransactionListener):
    """Commits what it is asked about."""

    def __init__(self) -> None:
        self.threads: set[str] = set()

    def execute(self, half: object, argument: object) -> TransactionState:
        """Say how it ended, in the thread that sent it."""
        self.threads.add(threading.current_thread().name)
        assert isinstance(argument, TransactionState)
        return argument

    def check(self, message: ReceivedMessage) -> TransactionState:
        """Say that it is committed."""
        return TransactionState.COMMIT


def test_blocks_commit_and_roll_back(namesrv: str) -> None:
    """What is committed is delivered, what is rolled back never."""
    topic, got, listener = new_topic(), Counter[bytes](), Listener()
    with TransactionProducer(
        "sync-transactions", namesrv=namesrv, listener=listener,
        settings=TransactionSettings(send_timeout_ms=TIMEOUT_MS),
    ) as producer:  # fmt: skip
        producer.send(Message(topic, b"plain"))
        with producer.transaction(Message(topic, b"committed")) as half:
            assert half.message_id
        with pytest.raises(ZeroDivisionError), producer.transaction(Message(topic, b"rolled back")):
            raise ZeroDivisionError
        for state in (TransactionState.COMMIT, TransactionState.ROLLBACK):
            producer.send_in_transaction(Message(topic, state.name.encode()), state)
        assert listener.threads == {threading.current_thread().name}

        def handle(message: ReceivedMessage) -> None:
            got[message.body] += 1

        consumer = PushConsumer(f"{topic}-group", namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
        consumer.subscribe(topic, handle)
        with consumer:
            wait_until(lambda: len(got) == 3)
    assert got == {b"plain": 1, b"committed": 1, b"COMMIT": 1}
