"""The image of `deploy/Dockerfile` at work: as its user, on a read-only root, with volumes."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from support.interop.containers import UID, Container, Running, volume
from support.interop.image import Image, image
from support.interop.processes import free_port
from support.waiting import until

from aerobee.client import ConsumeFrom, Message, Producer, PushConsumer
from aerobee.client.received import ReceivedMessage

pytestmark = [pytest.mark.interop, pytest.mark.needs("image"), pytest.mark.timeout(900)]

HOME: Final = "/home/rocketmq"
STORE: Final = f"{HOME}/store"
MESSAGES: Final = 300


@pytest.fixture(scope="module")
def built() -> Image:
    """The image of this tree."""
    return image()


@pytest.fixture(scope="module")
def bare(built: Image) -> Iterator[Container]:
    """A container without volumes."""
    with built.tree() as root:
        yield Container(built, root, {})


class Ports(NamedTuple):
    """Where the servers of a test listen."""

    namesrv: int
    broker: int

    @property
    def http(self) -> int:
        """Beside the broker's."""
        return self.broker - 1


@pytest.fixture
def ports() -> Ports:
    """Ports that are free; those beneath the broker's are its own, too."""
    return Ports(free_port(), free_port(also_below=2))


@pytest.fixture
def running() -> Iterator[list[Running]]:
    """What is started, ended at the end of the test."""
    started: list[Running] = []
    yield started
    for each in started:
        if each.process.running:
            each.process.kill()


def conf(folder: Path, ports: Ports) -> Path:
    """Write a broker.conf as operators of RocketMQ have it, in a folder to mount."""
    folder.mkdir()
    (folder / "broker.conf").write_text(
        "brokerClusterName = DefaultCluster\n"
        "brokerName = broker-a\n"
        "brokerId = 0\n"
        "deleteWhen = 04\n"
        "fileReservedTime = 48\n"
        "brokerRole = ASYNC_MASTER\n"
        "flushDiskType = ASYNC_FLUSH\n"
        "brokerIP1 = 127.0.0.1\n"
        f"listenPort = {ports.broker}\n"
        f"httpPort = {ports.http}\n"
    )
    return folder


async def send(namesrv: str, topic: str) -> set[bytes]:
    """Send messages and return their bodies, all of them acknowledged."""
    bodies = [f"{topic}-{number}".encode() for number in range(MESSAGES)]
    async with Producer("deployed", namesrv=namesrv) as producer:
        for body in bodies:
            await producer.send(Message(topic, body))
    return set(bodies)


async def consume(namesrv: str, topics: list[str], wanted: int) -> set[bytes]:
    """Return what a new group is handed of some topics."""
    found: set[bytes] = set()

    async def handle(message: ReceivedMessage) -> None:
        found.add(bytes(message.body))

    consumer = PushConsumer("after", namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    for topic in topics:
        consumer.subscribe(topic, handle)
    async with consumer:
        await until(lambda: len(found) >= wanted, 40, "all messages")
    return found


def test_it_has_what_runs_and_nothing_that_builds(built: Image, bare: Container) -> None:
    """A number as its user, whose folders are its own; compiled code, and no compiler."""
    assert built.config["User"] == f"{UID}:{UID}"
    assert set(built.config["Volumes"]) == {STORE, f"{HOME}/namesrv"}
    for folder in (STORE, f"{HOME}/namesrv", f"{HOME}/logs"):
        assert (bare.root / folder[1:]).stat().st_uid == UID
    version = bare.run("aerobee", "--version")
    assert "(compiled" in version.stdout, version
    for name in ("cc", "gcc", "pip", "pip3"):
        assert bare.run("sh", "-c", f"command -v {name}").stdout == ""
    tried = "id -u; touch /opt/aerobee/x /home/rocketmq/x; cat /proc/self/status"
    written = bare.run("sh", "-c", tried)
    assert written.stdout.startswith(f"{UID}\n")
    assert written.stderr.count("Read-only file system") == 2
    assert re.findall(r"Cap(?:Eff|Prm|Bnd):\s*(\w+)", written.stdout) == ["0" * 16] * 3


@pytest.mark.parametrize(
    ("words", "variables", "said"),
    [
        (["sh", "mqbroker", "-h"], {}, "usage: mqbroker"),
        (["./mqnamesrv", "-h"], {}, "usage: mqnamesrv"),
        (["sh", "mqadmin", "help"], {}, "clusterList"),
        (["broker", "-h"], {}, "usage: mqbroker"),
        (["broker", "start", "--help"], {}, "Usage: broker start"),
        (["nameserver", "--help"], {}, "usage: mqnamesrv"),
        (["sh", "mqbroker", "-n", "ns:1", "-p"], {}, "namesrvAddr=ns:1\n"),
        (["broker", "-m"], {"NAMESRV_ADDR": "ns:2"}, "namesrvAddr=ns:2\n"),
        (["mqbroker", "-p"], {}, f"storePathRootDir={STORE}\n"),
        (["namesrv", "start", "-p"], {}, f"kvConfigPath={HOME}/namesrv/kvConfig.json\n"),
        (["mqnamesrv", "-n", "ns:1", "-p"], {}, "listenPort=9876\n"),
    ],
    ids=" ".join,
)
def test_it_takes_the_words_of_rocketmqs_images(
    bare: Container, words: list[str], variables: dict[str, str], said: str
) -> None:
    """What stands in compose files and scripts."""
    done = bare.run(*words, **variables)
    assert done.returncode == 0 and said in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["proxy"], "there is no proxy here"),
        (["controller"], "there is no controller here"),
        (["sh", "mqbroker", "-c"], "expected one argument"),
        (["sh", "mqbroker", "-c", "../conf/gone.conf"], "No such file"),
        (["broker", "start", "--wrong"], "No such option"),
    ],
    ids=" ".join,
)
def test_what_it_cannot_do_it_says(bare: Container, words: list[str], said: str) -> None:
    """With the code of a wrong call, by which a service manager does not try again."""
    done = bare.run(*words)
    assert done.returncode == 2 and said in done.stderr, done.stdout + done.stderr


def test_a_role_by_a_variable_and_options_of_a_jvm(
    bare: Container, tmp_path: Path, ports: Ports, running: list[Running]
) -> None:
    """The role starts its server; what only Java would read is named, once."""
    container = bare.with_mounts({f"{HOME}/namesrv": volume(tmp_path / "namesrv")})
    variables = {"NODE_ROLE": "nameserver", "JAVA_OPT_EXT": "-Xmx1g"}
    namesrv = container.start(tmp_path / "log", **variables, AEROBEE_LISTEN_PORT=str(ports.namesrv))
    running.append(namesrv)
    namesrv.process.wait_until(
        lambda: "namesrv serves on" in namesrv.process.tail(), 20, "the nameserver"
    )
    assert "there is no JVM here: JAVA_OPT_EXT ignored\n" in namesrv.process.tail()
    healthy = container.health(AEROBEE_LISTEN_PORT=str(ports.namesrv))
    assert (healthy.returncode, healthy.stdout) == (0, "ok\n"), healthy
    assert namesrv.stop() == 0
    assert container.health(AEROBEE_LISTEN_PORT=str(ports.namesrv)).returncode == 1


async def test_a_cluster_of_it_is_used_stopped_and_upgraded(
    built: Image, bare: Container, tmp_path: Path, ports: Ports, running: list[Running]
) -> None:
    """As a compose file of RocketMQ's has it: all that was acknowledged is there afterwards.

    The second broker has another file system, as after an upgrade, and the volume of the first.
    """
    namesrv_addr = f"127.0.0.1:{ports.namesrv}"
    mounts = {
        STORE: volume(tmp_path / "store"),
        f"{HOME}/rocketmq-5.3.2/conf": conf(tmp_path / "conf", ports),
    }
    namesrv = bare.with_mounts({f"{HOME}/namesrv": volume(tmp_path / "namesrv")})
    running.append(
        namesrv.start(tmp_path / "n.log", "sh", "mqnamesrv", AEROBEE_LISTEN_PORT=str(ports.namesrv))
    )
    with built.tree() as root:
        first = Container(built, root, mounts)
        broker = await serving(first, tmp_path / "first.log", ports, running)
        sent = await send(namesrv_addr, "first")
        await ended(first, broker, ports)
    with built.tree() as root:
        second = Container(built, root, mounts)
        broker = await serving(second, tmp_path / "second.log", ports, running)
        sent |= await send(namesrv_addr, "second")
        assert await consume(namesrv_addr, ["first", "second"], len(sent)) == sent
        await ended(second, broker, ports)
    assert await asyncio.to_thread(running[0].stop) == 0


async def serving(
    container: Container, log_file: Path, ports: Ports, running: list[Running]
) -> Running:
    """Start a broker as compose files do, and return when the image finds it in health."""
    words = ("sh", "mqbroker", "-c", "../conf/broker.conf")
    broker = container.start(log_file, *words, NAMESRV_ADDR=f"127.0.0.1:{ports.namesrv}")
    running.append(broker)

    def healthy() -> bool:
        return container.health(AEROBEE_HTTP_PORT=str(ports.http)).returncode == 0

    await asyncio.to_thread(broker.process.wait_until, healthy, 30, "the broker")
    assert broker.first.uids().real == UID
    return broker


async def ended(container: Container, broker: Running, ports: Ports) -> None:
    """Have a broker stop as engines have it, and look at what it said meanwhile."""
    assert await asyncio.to_thread(broker.stop) == 0
    said = broker.process.tail(100_000)
    assert "clean=true" in said
    assert not re.search(r"Read-only|Permission denied|Traceback| ERROR ", said), said
    assert container.health(AEROBEE_HTTP_PORT=str(ports.http)).returncode == 1
