"""Requests and replies: Java, Go and our client in either role, at our broker and at RocketMQ's."""

import asyncio
import base64
import uuid
from collections.abc import Iterator

import pytest
from support.interop import peers
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.peers import Peer, PeerFailed
from support.interop.raw_messages import (
    create_topic,
    decode_records,
    offset_of,
    pull,
    wait_for_end,
    wait_for_route,
)
from support.interop.raw_remoting import RawClient
from support.interop.rocketmq_server import RocketMQ
from support.interop.sessions import Session

from aerobee.client import (
    ConsumeFrom,
    Message,
    PushConsumer,
    ReceivedMessage,
    ReplierRefused,
    RequestProducer,
)

pytestmark = [pytest.mark.interop, pytest.mark.needs("java", "go"), pytest.mark.timeout(300)]

FOREIGN = (peers.JAVA_5, peers.JAVA_4, peers.GO)
MARKS = {peers.JAVA_5: b"java:", peers.JAVA_4: b"java:", peers.GO: b"go:"}
REPLIES = "DefaultCluster_REPLY_TOPIC"
TIMEOUT_MS = 60_000  # on a busy machine; a consumer of Java's may take 20 s to get its queues
LARGE = bytes(range(256)) * 64  # so large that each client packs it
TEXT = b"how much are the apples? " * 4_000


@pytest.fixture(scope="module", params=[Aerobee, RocketMQ], ids=["aerobee", "rocketmq"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A nameserver and one broker."""
    kind: type[Cluster] = request.param
    with kind(tmp_path_factory.mktemp("requests")) as cluster:
        yield cluster


def new_topic(cluster: Cluster) -> str:
    """Make a topic that no other test uses."""
    topic = f"ask-{uuid.uuid4().hex[:12]}"
    create_topic(cluster.broker, topic, 2)
    wait_for_route(cluster.namesrv, topic)
    return topic


def ask(session: Session, topic: str, body: bytes, timeout_ms: int = TIMEOUT_MS) -> bytes:
    """Let a peer ask, and return the reply's body."""
    encoded = base64.b64encode(body).decode()
    answer = session.ask("request", topic=topic, body=encoded, timeout=timeout_ms)
    assert answer["topic"] == REPLIES
    return base64.b64decode(answer["body"])


def ask_again(session: Session, topic: str, body: bytes) -> bytes:
    """Ask until there is a reply.

    Go's first heartbeat as a producer may come behind its first request, whoever the broker is; and
    behind a restart each of their clients beats anew within 30 s, and not before.
    """
    for _ in range(9):
        try:
            return ask(session, topic, body, 5_000)
        except PeerFailed:
            continue
    return ask(session, topic, body)


@pytest.mark.parametrize("replier", FOREIGN, ids=str)
async def test_our_requests_are_answered_by_others(cluster: Cluster, replier: Peer) -> None:
    """One by one and many at a time; large bodies travel packed both ways.

    Go 2.1.2 says of a large reply that it is packed, and sends it as it is.
    """
    topic = new_topic(cluster)
    with Session(replier, cluster.namesrv) as session:
        await asyncio.to_thread(session.ask, "serve", topic=topic, group=f"{topic}-g")
        async with RequestProducer("askers", namesrv=cluster.namesrv) as producer:
            for body in (b"one", LARGE, TEXT):
                answer = await producer.request(Message(topic, body), timeout_ms=TIMEOUT_MS)
                assert answer.body == MARKS[replier] + body
            answers = await asyncio.gather(
                *(
                    producer.request(Message(topic, b"%d" % at), timeout_ms=TIMEOUT_MS)
                    for at in range(50)
                )
            )
            assert [each.body for each in answers] == [
                MARKS[replier] + b"%d" % at for at in range(50)
            ]


@pytest.mark.parametrize("asker", FOREIGN, ids=str)
async def test_requests_of_others_are_answered_by_us(cluster: Cluster, asker: Peer) -> None:
    """A refusal is a message to them; what nobody answers ends with their own time-out."""
    topic, refused = new_topic(cluster), new_topic(cluster)

    async def handle(request: ReceivedMessage) -> None:
        if request.body != b"silence":
            await producer.reply(request, b"ours:" + request.body, tags="A")

    async def refuse(request: ReceivedMessage) -> None:
        await producer.reply(request, b"no", refusal="not today")

    producer = RequestProducer("repliers", namesrv=cluster.namesrv)
    consumer = PushConsumer(f"{topic}-g", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(topic, handle)
    consumer.subscribe(refused, refuse)
    async with producer, consumer:
        with Session(asker, cluster.namesrv) as session:
            for body in (b"one", LARGE, TEXT):
                assert await asyncio.to_thread(ask_again, session, topic, body) == b"ours:" + body
            assert await asyncio.to_thread(ask, session, refused, b"please") == b"no"
            with pytest.raises(PeerFailed, match=r"(?i)time ?out"):
                await asyncio.to_thread(ask, session, topic, b"silence", 1_000)
        async with RequestProducer("askers", namesrv=cluster.namesrv) as own:
            with pytest.raises(ReplierRefused, match="not today"):
                await own.request(Message(refused, b"please"), timeout_ms=TIMEOUT_MS)


def test_others_ask_each_other_by_our_broker(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Java asks Go and Go asks Java; a restart of the broker between requests is survived."""
    with Aerobee(tmp_path_factory.mktemp("both")) as cluster:
        by_java, by_go = new_topic(cluster), new_topic(cluster)
        with (
            Session(peers.JAVA_5, cluster.namesrv) as java,
            Session(peers.GO, cluster.namesrv) as go,
        ):
            java.ask("serve", topic=by_java, group=f"{by_java}-g")
            go.ask("serve", topic=by_go, group=f"{by_go}-g")
            assert ask_again(go, by_java, b"1") == b"java:1"
            assert ask_again(go, by_java, LARGE) == b"java:" + LARGE
            assert ask_again(java, by_go, b"2") == b"go:2"
            assert ask_again(java, by_go, LARGE) == b"go:" + LARGE
            cluster.stop_broker()
            cluster.start()
            assert ask_again(go, by_java, b"3") == b"java:3"
            assert ask_again(java, by_go, b"4") == b"go:4"


def test_replies_are_refused_in_the_same_words(cluster: Cluster) -> None:
    """By whom they are read: the words say to programs and people what became of a reply."""
    fields = {
        "a": "repliers", "b": REPLIES, "c": "TBW102", "d": "4", "e": "0",
        "f": "0", "g": "1", "h": "0", "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
    client = RawClient(cluster.broker)
    begin = offset_of(client, 30, REPLIES, 0)
    try:
        unnamed = client.call(325, fields | {"i": "MSG_TYPE\x01reply\x02"}, b"x")
        absent = client.call(325, fields | {"i": "REPLY_TO_CLIENT\x01nobody\x02"}, b"x")
        elsewhere = client.call(325, fields | {"e": "77"}, b"x")
    finally:
        client.close()
    assert (unnamed.code, unnamed.remark) == (
        1, "reply message properties[REPLY_TO_CLIENT] is null"
    )  # fmt: skip
    assert (absent.code, absent.remark) == (
        1, "push reply message fail, channel of <nobody> not found."
    )  # fmt: skip
    assert elsewhere.code != 0 and "queueId[77] is illegal" in str(elsewhere.remark)
    with RawClient(cluster.broker) as reader:
        wait_for_end(reader, REPLIES, 0, begin + 2)
        kept = decode_records(pull(reader, REPLIES, 0, begin).body)
    assert [each.body for each in kept] == [b"x", b"x"], "stored whatever the push gave"


@pytest.mark.parametrize("kind", [Aerobee, RocketMQ], ids=["aerobee", "rocketmq"])
async def test_a_broker_that_is_killed_in_between_loses_no_request(
    kind: type[Cluster], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The request is handled while its broker dies; the reply finds who asked at the next one."""
    handled, held = asyncio.Event(), asyncio.Event()

    async def handle(request: ReceivedMessage) -> None:
        handled.set()
        await held.wait()
        await producer.reply(request, b"after all", timeout_ms=60_000)

    with kind(tmp_path_factory.mktemp("killed")) as cluster:
        topic = new_topic(cluster)
        producer = RequestProducer("both", namesrv=cluster.namesrv)
        consumer = PushConsumer(
            f"{topic}-g", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST
        )
        consumer.subscribe(topic, handle)
        async with producer, consumer:
            asking = asyncio.create_task(producer.request(Message(topic, b"x"), timeout_ms=240_000))
            async with asyncio.timeout(60):
                await handled.wait()
            await asyncio.to_thread(cluster.kill_broker)
            await asyncio.to_thread(cluster.start)
            held.set()
            assert (await asking).body == b"after all"
