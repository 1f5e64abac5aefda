"""How nameservers learn of this broker and its topics, and that none of them holds it up."""

import asyncio
import statistics
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.stand_ins.fake_connection import FakeConnection
from support.waiting import until

from aerobee.broker.cluster import registration as module
from aerobee.broker.cluster.registration import Registrar
from aerobee.broker.rules.system_topics import system_topics
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.topics import TopicTable
from aerobee.remoting.bodies import (
    DataVersion,
    KVTable,
    RegisterBrokerBody,
    TopicConfig,
    encode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import VERSION, Command
from aerobee.remoting.errors import NotConnected
from aerobee.remoting.headers.registration import RegisterBrokerRequest
from aerobee.remoting.headers.typed import decode_header
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.registration_body import decode_register_body

Answer = Callable[[Command], Awaitable[Command]]


async def success(command: Command) -> Command:
    """Answer as a nameserver that is content."""
    return command.reply()


class Nameservers:
    """Stands in for the connection pool: answers by address, remembers what each was told."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.heard: dict[str, list[Command]] = {}
        self.connections: dict[str, Connection] = {}

    def get(self, address: str) -> Connection | None:
        """Return the connection over which an address was last spoken to."""
        return self.connections.get(address)

    async def call(self, address: str, command: Command, timeout_s: float) -> Command:
        """Hand a request to the fake nameserver at an address."""
        self.heard.setdefault(address, []).append(command)
        async with asyncio.timeout(timeout_s):
            reply = await self.answers.get(address, success)(command)
        self.connections.setdefault(address, FakeConnection(address))
        return reply

    def registrations(self, address: str) -> list[list[str]]:
        """Return the names of the topics of every registration that an address got."""
        return [
            sorted(registered(command).topic_config_serialize_wrapper.topic_config_table)
            for command in self.heard.get(address, [])
            if command.code == RequestCode.REGISTER_BROKER
        ]


def registered(command: Command) -> RegisterBrokerBody:
    """Read a registration as a nameserver does, its checksum included."""
    header = decode_header(RegisterBrokerRequest, command.ext)
    assert header.body_crc32 == zlib.crc32(bytes(command.body)) & 0x7FFF_FFFF
    return decode_register_body(header, VERSION, command.body)


class World:
    """A registration with fake nameservers `a:1` and `b:1`."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        values: dict[str, Any] = {
            "broker_ip1": "10.1.1.1",
            "namesrv_addr": "a:1;b:1",
            "announce_timeout_ms": 200,
        }
        self.settings = BrokerSettings(**(values | settings))
        self.topics = TopicTable(
            system_topics(self.settings), lambda: int(time.time() * 1000), folder
        )
        self.nameservers = Nameservers()
        self.registration = Registrar(
            Live(self.settings), self.topics, self.nameservers, "10.1.1.1:10911"
        )

    def make(self, name: str) -> TopicConfig:
        """Make a topic."""
        topic = self.topics.create_on_send(name, "TBW102", 4)
        assert topic is not None
        return topic


@asynccontextmanager
async def running(world: World) -> AsyncIterator[Registrar]:
    """Run the periodic registration for as long as the block takes."""
    await world.registration.start()
    task = asyncio.create_task(world.registration.run())
    try:
        yield world.registration
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await world.registration.stop()


async def test_start_tells_every_nameserver_everything(tmp_path: Path) -> None:
    """All topics, who and where, and at the stop a farewell to each."""
    world = World(tmp_path)
    assert not world.registration.registered
    await world.registration.start()
    everything = sorted(topic.topic_name for topic in world.topics)
    for address in ("a:1", "b:1"):
        assert world.nameservers.registrations(address) == [everything]
        header = decode_header(RegisterBrokerRequest, world.nameservers.heard[address][0].ext)
        assert (header.broker_name, header.broker_addr) == ("broker-a", "10.1.1.1:10911")
        assert (header.cluster_name, header.broker_id) == ("DefaultCluster", 0)
        assert header.ha_server_addr == "10.1.1.1:10912"
    assert world.registration.registered
    await world.registration.stop()
    for address in ("a:1", "b:1"):
        assert world.nameservers.heard[address][-1].code == RequestCode.UNREGISTER_BROKER


async def test_an_announcement_carries_what_changed(tmp_path: Path) -> None:
    """One topic, with the version that belongs to it, and it is on disk when it returns."""
    world = World(tmp_path)
    await world.registration.start()
    await world.registration.announce(world.make("t"))
    assert world.nameservers.registrations("a:1")[-1] == ["t"]
    sent = registered(world.nameservers.heard["b:1"][-1]).topic_config_serialize_wrapper
    assert sent.data_version == world.topics.data_version
    assert b'"t"' in (tmp_path / "topics.json").read_bytes()


async def test_many_announcements_share_registrations(tmp_path: Path) -> None:
    """A thousand first sends at once do not queue up behind one another."""
    world = World(tmp_path)
    await world.registration.start()
    await asyncio.gather(
        *(world.registration.announce(world.make(f"t{number}")) for number in range(1000))
    )
    rounds = world.nameservers.registrations("a:1")[1:]
    assert sorted(name for names in rounds for name in names) == sorted(
        f"t{number}" for number in range(1000)
    )
    assert len(rounds) <= 3


async def test_a_silent_nameserver_is_waited_for_once(tmp_path: Path) -> None:
    """It costs the first announcement its limit and the later ones nothing; then it catches up."""
    world = World(tmp_path)
    await world.registration.start()
    release = asyncio.Event()

    async def hang(command: Command) -> Command:
        await release.wait()
        return command.reply()

    world.nameservers.answers["a:1"] = hang
    started = time.monotonic()
    await world.registration.announce(world.make("t1"))
    assert time.monotonic() - started > 0.15
    assert world.nameservers.registrations("b:1")[-1] == ["t1"]
    took_s = []
    for number in range(2, 10):
        started = time.monotonic()
        await world.registration.announce(world.make(f"t{number}"))
        took_s.append(time.monotonic() - started)
    assert statistics.median(took_s) < 0.15  # each that waits takes 0.2 s
    release.set()
    await until(lambda: len(world.nameservers.registrations("a:1")) >= 3)
    assert world.nameservers.registrations("a:1")[-1] == [f"t{n}" for n in range(2, 10)]
    await world.registration.stop()


async def test_an_unreachable_nameserver_is_tried_again_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets everything when it is there, without waiting for the 30 s timer."""
    monkeypatch.setattr(module, "RETRY_S", 0.02)
    world = World(tmp_path)

    async def refuse(command: Command) -> Command:
        raise NotConnected("connection refused")

    world.nameservers.answers = {"a:1": refuse, "b:1": refuse}
    async with running(world) as registration:
        assert not registration.registered
        await registration.announce(world.make("t"))
        world.nameservers.answers.clear()
        await until(lambda: registration.registered)
        assert "t" in world.nameservers.registrations("a:1")[-1]


async def test_a_nameserver_that_lost_its_connection_is_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nameservers forget a broker whose connection ends, so a restarted one needs everything."""
    monkeypatch.setattr(module, "RETRY_S", 0.02)
    world = World(tmp_path, namesrv_addr="a:1")
    async with running(world) as registration:
        connection = world.nameservers.connections.pop("a:1")
        for callback in connection.on_closed:
            callback(connection)
        assert not registration.registered
        await until(lambda: registration.registered)
        first, second = world.nameservers.registrations("a:1")
        assert first == second


async def test_a_nameserver_that_refuses_an_announcement_gets_everything(tmp_path: Path) -> None:
    """RocketMQ's refuses single topics of a broker that it does not know."""
    world = World(tmp_path, namesrv_addr="a:1")
    await world.registration.start()

    async def forgetful(command: Command) -> Command:
        count = len(registered(command).topic_config_serialize_wrapper.topic_config_table)
        code = ResponseCode.SYSTEM_ERROR if count == 1 else ResponseCode.SUCCESS
        return command.reply(code, remark="register broker failed")

    world.nameservers.answers["a:1"] = forgetful
    await world.registration.announce(world.make("t"))
    alone, everything = world.nameservers.registrations("a:1")[-2:]
    assert alone == ["t"] and "t" in everything and len(everything) > 10
    assert world.registration.registered


@pytest.mark.parametrize(("current", "expected"), [(True, 0), (False, 1)])
async def test_without_force_only_those_behind_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, current: bool, expected: int
) -> None:
    """forceRegister=false asks each nameserver for its version first (code 322)."""
    monkeypatch.setattr(module, "PERIOD_MS_MIN", 20)
    world = World(
        tmp_path, namesrv_addr="a:1", force_register=False, register_name_server_period=20
    )
    asked = 0

    async def versions(command: Command) -> Command:
        nonlocal asked
        if command.code != RequestCode.QUERY_DATA_VERSION:
            return command.reply()
        asked += 1
        known = world.topics.data_version if current or asked > 1 else DataVersion(counter=99)
        changed = str(known != world.topics.data_version).lower()
        return command.reply(0, {"changed": changed}, encode_body(known))

    world.nameservers.answers["a:1"] = versions
    async with running(world):
        await until(lambda: asked >= 3)
        assert len(world.nameservers.registrations("a:1")) == 1 + expected


async def test_order_topics_come_back_with_the_reply(tmp_path: Path) -> None:
    """The nameserver's order configuration marks topics here."""
    world = World(tmp_path, namesrv_addr="a:1")
    world.make("t")

    async def ordered(command: Command) -> Command:
        return command.reply(body=encode_body(KVTable(table={"t": "broker-a:4"})))

    world.nameservers.answers["a:1"] = ordered
    await world.registration.start()
    assert world.topics.is_order_topic("t")


async def test_a_nameserver_that_talks_nonsense_is_borne(tmp_path: Path) -> None:
    """Its replies cannot be read, but it is there, and announcements go on."""
    world = World(tmp_path, namesrv_addr="a:1")

    async def nonsense(command: Command) -> Command:
        return command.reply(body=b"{broken")

    world.nameservers.answers["a:1"] = nonsense
    await world.registration.start()
    took_s = []
    for name in ("t", "u", "v", "w", "x"):
        started = time.monotonic()
        await world.registration.announce(world.make(name))
        took_s.append(time.monotonic() - started)
        assert world.nameservers.registrations("a:1")[-1] == [name]
    assert statistics.median(took_s) < 0.15  # it is not waited for


async def test_a_read_only_broker_says_so_of_every_topic(tmp_path: Path) -> None:
    """brokerPermission limits what is announced, and the tables keep their own."""
    world = World(tmp_path, namesrv_addr="a:1", broker_permission=4)
    await world.registration.start()
    table = registered(
        world.nameservers.heard["a:1"][0]
    ).topic_config_serialize_wrapper.topic_config_table
    assert table["BenchmarkTest"].perm == 4 and table["TBW102"].perm == 4
    kept = world.topics.get("BenchmarkTest")
    assert kept is not None and kept.perm == 6


async def test_compressed_registration_is_read_the_same(tmp_path: Path) -> None:
    """compressedRegister=true changes the body's form, not its topics."""
    world = World(tmp_path, namesrv_addr="a:1;b:1", compressed_register=True)
    await world.registration.start()
    assert world.nameservers.heard["a:1"][0].ext["compressed"] == "true"
    assert world.nameservers.registrations("a:1") == [
        sorted(topic.topic_name for topic in world.topics)
    ]


async def test_a_broker_without_nameservers_is_registered(tmp_path: Path) -> None:
    """It serves alone; announcements only reach the disk."""
    world = World(tmp_path, namesrv_addr="")
    await world.registration.start()
    assert world.registration.registered
    await world.registration.announce(world.make("t"))
    assert (tmp_path / "topics.json").exists()
    await world.registration.stop()
