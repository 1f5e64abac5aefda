"""The embedded cluster in its three forms: it starts, serves, restarts and leaves nothing."""

import asyncio
import gc
import time
from pathlib import Path

import pytest

from aerobee.client import BrokerRefused, ConsumeFrom, LitePullConsumer, Message, Producer
from aerobee.remoting.errors import AerobeeError, Unavailable
from aerobee.testing import ClusterProcesses, ClusterThread, EmbeddedCluster
from aerobee.testing.processes import ServerProcess


async def send_and_receive(namesrv: str, topic: str, count: int = 20) -> list[str]:
    """Send `count` messages and return the bodies that a consumer gets, sorted."""
    async with Producer(namesrv=namesrv) as producer:
        await asyncio.gather(
            *(producer.send(Message(topic, b"%03d" % number)) for number in range(count))
        )
    got: list[str] = []
    consumer = LitePullConsumer(f"{topic}-group", namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(topic)
    async with consumer, asyncio.timeout(20):
        async for message in consumer:
            got.append(message.body.decode())
            if len(got) == count:
                break
    return sorted(got)


EXPECTED = [f"{number:03d}" for number in range(20)]


async def test_two_brokers_and_two_nameservers_on_the_running_loop() -> None:
    """Clients of either nameserver reach all brokers; the temporary store goes at the end."""
    async with EmbeddedCluster(brokers=2, nameservers=2) as cluster:
        assert len(cluster.namesrv_addr.split(";")) == 2
        await cluster.create_topic("both", queues=2)
        for namesrv in cluster.namesrv_addr.split(";"):
            async with Producer(namesrv=namesrv) as producer:
                results = [await producer.send(Message("both", b"x")) for _ in range(8)]
            assert {result.queue.broker_name for result in results} == {"broker-a", "broker-b"}
        root = cluster.root
        assert (root / "broker-b" / "commitlog").is_dir()
    assert not root.exists()


async def test_a_program_s_collector_stays_its_own() -> None:
    """What a server's process does for itself, a program that embeds one has not asked for."""
    threshold, frozen = gc.get_threshold(), gc.get_freeze_count()
    async with EmbeddedCluster():
        assert gc.isenabled() and gc.get_threshold() == threshold
        assert gc.get_freeze_count() <= frozen  # what was frozen may have gone


async def test_a_restart_keeps_port_and_messages(tmp_path: Path) -> None:
    """After a restart clients go on where they were, and a root outlives its cluster."""
    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("kept")
        async with Producer(namesrv=cluster.namesrv_addr) as producer:
            first = await producer.send(Message("kept", b"1"), key="one queue")
            address = cluster.broker_addrs[0]
            await cluster.restart_broker()
            assert cluster.broker_addrs[0] == address
            second = await producer.send(Message("kept", b"2"), queue=first.queue)
            assert second.queue_offset == first.queue_offset + 1
    async with EmbeddedCluster(root=tmp_path) as later:
        async with Producer(namesrv=later.namesrv_addr) as producer:
            third = await producer.send(Message("kept", b"3"), queue=first.queue)
        assert third.queue_offset == first.queue_offset + 2


async def test_a_refused_topic_raises_with_the_brokers_words() -> None:
    """A mistake of the test is told by the broker that noticed it."""
    async with EmbeddedCluster() as cluster:
        with pytest.raises(BrokerRefused, match="bad name"):
            await cluster.create_topic("bad name")


async def test_a_failed_start_leaves_nothing(tmp_path: Path) -> None:
    """If a broker cannot start, what has started is stopped again."""
    (tmp_path / "broker-b").write_text("a file where the store should be")
    cluster = EmbeddedCluster(brokers=2, root=tmp_path)
    with pytest.raises(AerobeeError, match="broker-b"):
        await cluster.start()
    assert cluster.brokers == []
    assert not (tmp_path / "broker-a" / "abort").exists()


def test_a_thread_serves_tests_that_block() -> None:
    """A synchronous test has the same cluster; starting it twice in a row is quick."""
    seconds = []
    for _ in range(3):
        started = time.process_time()
        with ClusterThread() as cluster:
            seconds.append(time.process_time() - started)
            cluster.create_topic("threaded")
            if len(seconds) == 1:
                received = asyncio.run(send_and_receive(cluster.namesrv_addr, "threaded"))
                assert received == EXPECTED
    print("seconds of CPU to start:", [f"{each:.3f}" for each in seconds])
    assert min(seconds) < 0.5


def test_a_thread_holds_nothing_until_it_starts_and_may_start_again() -> None:
    """A fixture that makes one and skips leaves no open loop; another `with` is as the first."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    thread = ClusterThread()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    for _ in range(2):
        with thread:
            thread.create_topic("threaded")
            with pytest.raises(RuntimeError, match="started already"):
                thread.start()
    with pytest.raises(RuntimeError, match="not started"):
        thread.create_topic("threaded")


def test_child_processes_survive_a_kill_of_the_broker(tmp_path: Path) -> None:
    """The same cluster as processes: a killed broker starts again on its port with its store."""
    with ClusterProcesses(root=tmp_path) as cluster:
        cluster.create_topic("killed")
        received = asyncio.run(send_and_receive(cluster.namesrv_addr, "killed"))
        assert received == EXPECTED
        address = cluster.broker_addrs[0]
        cluster.brokers[0].kill()
        assert (cluster.store_path() / "abort").exists()
        cluster.brokers[0].start()
        assert cluster.broker_addrs[0] == address
        assert cluster.brokers[0].stop() == 0
        assert not (cluster.store_path() / "abort").exists()


def test_a_process_that_cannot_start_says_why(tmp_path: Path) -> None:
    """The words of the server reach the test."""
    server = ServerProcess("aerobee.broker", tmp_path, {"listenPort": "many"})
    with pytest.raises(Unavailable, match="listenPort cannot be 'many'"):
        server.start()


async def test_one_server_that_does_not_stop_leaves_no_other_running() -> None:
    """Its error is raised when all of them are stopped, and the temporary store is gone."""
    cluster = EmbeddedCluster(brokers=2)
    await cluster.start()
    nameserver, broker, root = cluster.nameservers[0], cluster.brokers[0], cluster.root
    stop = broker.stop

    async def fail() -> None:
        await stop()
        raise OSError("as the test wants")

    broker.stop = fail  # type: ignore[method-assign]
    with pytest.raises(OSError, match="as the test wants"):
        await cluster.stop()
    address = f"127.0.0.1:{nameserver.port}"
    with pytest.raises(Unavailable):
        async with Producer(namesrv=address) as producer:
            await producer.send(Message("t", b"x"))
    assert not root.exists()
    await cluster.stop()


async def test_a_broker_that_does_not_start_again_is_no_more() -> None:
    """The cluster can be stopped all the same."""
    async with EmbeddedCluster() as cluster:
        cluster._broker_settings["broker_name"] = ""
        with pytest.raises(Exception, match=r"brokerName|broker_name|name"):
            await cluster.restart_broker()
        assert not cluster.brokers


def test_a_cluster_that_is_never_started_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever only describes one owes nothing."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    clusters = [EmbeddedCluster(), ClusterProcesses()]
    clusters.clear()
    gc.collect()
    assert not list(tmp_path.iterdir())
