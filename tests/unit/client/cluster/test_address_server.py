"""Clients find nameservers that an HTTP server names, and follow them when they move."""

import asyncio
import gc
import re
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import ClientSettings, InvalidUse, Message, Producer, Unavailable
from aerobee.client.cluster.address_server import AddressServer, host_of, parse_namesrv
from aerobee.client.cluster.client_id import local_ip
from aerobee.client.cluster.directory import Cluster
from aerobee.remoting.bodies import ClusterInfo, encode_body
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.net.routes import Reply


class Addresses:
    """An address server that answers what the test says."""

    def __init__(self) -> None:
        self.answer: str | None = None  # None: an error
        self.asked: list[str] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        """Answer a question."""
        self.asked.append(request.path_qs)
        if self.answer is None:
            raise web.HTTPInternalServerError
        return web.Response(text=self.answer)


@pytest.fixture
async def addresses() -> AsyncIterator[Addresses]:
    """An address server on a free port."""
    server = Addresses()
    app = web.Application()
    app.router.add_get("/{path:.*}", server.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = "http://" + f"{host}:{port}/rocketmq/nsaddr"
    yield server
    await runner.cleanup()


async def test_nameservers_are_found_and_followed(
    cluster: FakeCluster, addresses: Addresses
) -> None:
    """At the first look-up, and again in intervals; an answer that is none changes nothing."""
    cluster.create("t", 1)
    addresses.answer = f"{cluster.namesrv}\nsecond line\n"
    client = ClientSettings(namesrv_interval_ms=10, route_interval_ms=10, unit_name="u")
    async with Producer(namesrv=addresses.url, client=client) as producer:
        await producer.send(Message("t", b"x"))
        assert addresses.asked[0] == "/rocketmq/nsaddr-u?nofix=1"
        other = cluster.brokers[1]
        assert not other.requests(105)
        addresses.answer = f"{other.address};"
        await until(lambda: bool(other.requests(105)))
        for answer in (None, "", "no address"):
            addresses.answer = answer
            asked = len(addresses.asked)
            await until(lambda asked=asked: len(addresses.asked) > asked + 1)  # type: ignore[misc]
        await producer.send(Message("t", b"y"))


async def test_a_failure_that_nobody_waits_for_is_not_reported_as_lost() -> None:
    """The user has given up: the event loop need not complain of an error never retrieved."""
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
    asked, may_go = asyncio.Event(), asyncio.Event()

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await may_go.wait()
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        url = "http://" + ":".join(map(str, server.sockets[0].getsockname()))
        addresses = AddressServer(url, "", [])
        finding = asyncio.create_task(addresses.find())
        await asked.wait()
        finding.cancel()
        await asyncio.wait([finding])
        may_go.set()
        await until(lambda: len(asyncio.all_tasks()) == 1)
    del addresses, finding
    gc.collect()
    assert complaints == []


async def test_a_cluster_is_looked_at_through_an_address_server(
    cluster: FakeCluster, addresses: Addresses
) -> None:
    """It is asked once, and again when none of those that it named has answered."""
    code = RequestCode.GET_BROKER_CLUSTER_INFO
    first, other = cluster.brokers
    info = Reply(body=encode_body(ClusterInfo()))
    first.script[code].append(lambda *_: info)
    other.script[code].append(lambda *_: info)
    addresses.answer = first.address
    settings = ClientSettings(unit_name="u")
    async with Cluster(addresses.url, settings=settings) as looker:
        assert await looker.brokers() == []
        assert addresses.asked == ["/rocketmq/nsaddr-u?nofix=1"]
        await first.stop()
        addresses.answer = other.address
        with pytest.raises(Unavailable, match=first.address):
            await looker.brokers()
        assert await looker.brokers() == []
    assert len(addresses.asked) == 2


@pytest.mark.parametrize("answer", [None, "", " \n ", "nonsense", "a:1;b"])
async def test_without_an_answer_there_is_no_route(
    addresses: Addresses, answer: str | None
) -> None:
    """The error names the URL."""
    addresses.answer = answer
    async with Producer(namesrv=addresses.url) as producer:
        with pytest.raises(Unavailable, match=addresses.url):
            await producer.send(Message("t", b"x"), timeout_ms=100)


async def test_a_server_that_is_not_there_is_named() -> None:
    """With the reason."""
    server = AddressServer("http://127.0.0.1:1/nsaddr", "", [])
    with pytest.raises(Unavailable, match=re.escape(f"no answer from {server.url}")):
        await server.find()


def test_a_url_stands_alone() -> None:
    """It leads to the machine's own address, as nameservers do."""
    assert parse_namesrv("http://127.0.0.1:8080/x") == ("http://127.0.0.1:8080/x",)
    with pytest.raises(InvalidUse, match="stands alone"):
        parse_namesrv("http://127.0.0.1:8080/x;127.0.0.1:9876")
    assert (host_of("https://[::1]/x"), host_of("a:1")) == ("[::1]:443", "a:1")
    assert local_ip("http://127.0.0.1/x") == "127.0.0.1"
