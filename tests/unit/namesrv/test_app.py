"""The nameserver through its socket: registrations, routes and what hostile peers send."""

import asyncio
import json
import zlib
from pathlib import Path

import pytest
from support.asker import BODY, BROKER, BROKER_B, TOPICS, VERSION, Asker, connect, content
from support.code_names import REQUEST_NAMES
from support.waiting import until

from aerobee.namesrv.app import NameServer
from aerobee.namesrv.processors import FAMILIES
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.namesrv.unserved import NAMESRV_CODES, UNSERVED
from aerobee.remoting.bodies import DataVersion, TopicConfig, encode_body
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.net.client import ConnectionPool
from aerobee.remoting.registration_body import encode_register_body


async def test_a_registered_topic_has_a_route(asker: Asker) -> None:
    """The reply is what a Java client expects, field by field."""
    reply = await asker.register()
    assert (reply.code, reply.ext, reply.body) == (0, {}, b"")
    route = await asker.route()
    assert route.code == 0
    assert content(route) == {
        "brokerDatas": [
            {
                "brokerAddrs": {"0": "10.0.0.1:10911"},
                "brokerName": "broker-a",
                "cluster": "DefaultCluster",
                "enableActingMaster": False,
            }
        ],
        "filterServerTable": {},
        "queueDatas": [
            {
                "brokerName": "broker-a",
                "perm": 6,
                "readQueueNums": 8,
                "topicSysFlag": 0,
                "writeQueueNums": 4,
            }
        ],
    }


async def test_an_unknown_topic_is_answered_in_rocketmqs_words(asker: Asker) -> None:
    """Clients look for the code, users for the text."""
    reply = await asker.route("nowhere")
    assert reply.code == 17
    assert reply.remark == (
        "No topic route info in name server for the topic: nowhere"
        "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
    )


@pytest.mark.parametrize(
    ("version", "fields", "strict"),
    [
        (400, {}, False),
        (401, {}, True),
        (400, {"acceptStandardJsonOnly": "true"}, True),
        (400, {"acceptStandardJsonOnly": "false"}, False),
    ],
)
async def test_old_clients_get_the_json_they_know(
    asker: Asker, version: int, fields: dict[str, str], strict: bool
) -> None:
    """Integer keys are quoted from 4.9.4 on, or where asked for."""
    await asker.register()
    body = bytes((await asker.route(fields=fields, version=version)).body)
    assert (b'{"0":"10.0.0.1:10911"}' in body) is strict
    assert (b'{0:"10.0.0.1:10911"}' in body) is not strict


async def test_a_route_needs_its_topic(asker: Asker) -> None:
    """A required field that is missing is named."""
    reply = await asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    assert reply.code == 1
    assert "topic" in (reply.remark or "")


OLD_BODY = json.dumps(
    {
        "dataVersion": {"counter": 7, "timestamp": 1_700_000_000_000},
        "topicConfigTable": {
            name: {"topicName": name, "readQueueNums": 8, "writeQueueNums": 4, "perm": 6}
            for name in TOPICS
        },
    }
).encode()


@pytest.mark.parametrize(
    ("body", "version", "fields"),
    [
        pytest.param(BODY, 513, {}, id="plain"),
        pytest.param(OLD_BODY, 36, {}, id="bare wrapper"),
        pytest.param(
            encode_register_body(TOPICS, VERSION, compressed=True),
            513,
            {"compressed": "true"},
            id="compressed",
        ),
        pytest.param(BODY, 513, {"bodyCrc32": str(zlib.crc32(BODY) & 0x7FFFFFFF)}, id="checked"),
    ],
)
async def test_every_form_of_registration_is_read(
    asker: Asker, body: bytes, version: int, fields: dict[str, str]
) -> None:
    """Plain, the bare table of old brokers, compressed, and with a checksum."""
    assert (await asker.register(fields, body=body, version=version)).code == 0
    route = content(await asker.route())
    assert route["queueDatas"][0]["readQueueNums"] == 8


async def test_a_registration_without_a_body_is_taken(asker: Asker) -> None:
    """A broker may register no topics; its address is known then."""
    assert (await asker.register(body=b"")).code == 0
    info = content(await asker.ask(RequestCode.GET_BROKER_CLUSTER_INFO))
    assert info["clusterAddrTable"] == {"DefaultCluster": ["broker-a"]}


@pytest.mark.parametrize(
    ("body", "fields", "remark"),
    [
        (BODY, {"bodyCrc32": "12345"}, "crc32 not match"),
        (b"{", {}, "RegisterBrokerBody"),
        (b"\x78\x9cnonsense", {"compressed": "true"}, ""),
        (zlib.compress(b"\x7f\xff\xff\xff"), {"compressed": "true"}, ""),
        (100_000_000, {"compressed": "true"}, ""),
        (encode_register_body({"x": TopicConfig(topic_name="x")}, VERSION), {}, "register broker"),
        (BODY, {"brokerId": "x"}, "broker"),
    ],
)
async def test_a_bad_registration_is_refused(
    asker: Asker, body: bytes | int, fields: dict[str, str], remark: str
) -> None:
    """Wrong sums, damaged bodies, bombs and single topics of strangers get code 1; then on."""
    if isinstance(body, int):  # so many zeros, packed
        body = zlib.compress(bytes(body), 1)
    reply = await asker.register(fields, body=body)
    assert reply.code == 1
    assert remark in (reply.remark or "")
    assert (await asker.route()).code == 17
    assert (await asker.register()).code == 0


async def test_refusals_do_not_fill_the_log(asker: Asker, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever registers what cannot be, over and over, is told of a few times."""
    for number in range(200):
        assert (await asker.register({"brokerAddr": f"nowhere-{number}"})).code == 1
    assert 0 < caplog.text.count("broker refused") <= 20


@pytest.mark.parametrize("field", ["brokerName", "clusterName"])
@pytest.mark.parametrize("name", ["", "b\nERROR forged", "b\x1b[2J", "x" * 256])
async def test_a_name_that_could_forge_a_log_is_refused(
    asker: Asker, caplog: pytest.LogCaptureFixture, field: str, name: str
) -> None:
    """Names stand in log lines, one each: with a line's end in it one could say anything."""
    reply = await asker.register({field: name})
    assert reply.code == 1
    assert "1 to 255 printable characters" in (reply.remark or "")
    assert "forged" not in caplog.text


@pytest.mark.parametrize(
    "address",
    [
        "broker..local:10911",
        f"{'x' * 64}.local:10911",
        f"{'x.' * 200}local:10911",
        "broker local:10911",
        "-broker:10911",
        "broker",
        "broker:0",
        "broker:99999",
        "broker:-1",
        ":10911",
        "[::g]:10911",
        "",
    ],
)
async def test_an_address_that_nobody_can_reach_is_refused(asker: Asker, address: str) -> None:
    """By name: in a route it would trouble every client of the topic, not this broker alone."""
    reply = await asker.register({"brokerAddr": address})
    assert reply.code == 1
    assert "broker broker-a cannot be reached" in (reply.remark or "")
    assert "brokerIP1" in (reply.remark or "")
    assert (await asker.route()).code == 17


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1:10911", "[::1]:10911", "fe80::1:10911", "a_b-c.example.:1", "bücher.example:65535"],
)
async def test_every_address_that_can_be_reached_is_taken(asker: Asker, address: str) -> None:
    """IP addresses of both kinds and names, also those of containers and other alphabets."""
    assert (await asker.register({"brokerAddr": address})).code == 0
    broker = content(await asker.route())["brokerDatas"][0]
    assert broker["brokerAddrs"] == {"0": address}


async def test_a_slave_is_told_its_master(asker: Asker) -> None:
    """In the reply's header fields."""
    await asker.register()
    reply = await asker.register({"brokerId": "1", "brokerAddr": "10.0.0.2:10911"})
    assert reply.ext == {"haServerAddr": "10.0.0.1:10912", "masterAddr": "10.0.0.1:10911"}


async def test_data_versions_are_compared(server: NameServer, asker: Asker) -> None:
    """Changed for a stranger, unchanged for the registered version; who asks has been heard."""
    ask, same = asker.ask, encode_body(VERSION)
    first = await ask(RequestCode.QUERY_DATA_VERSION, BROKER, same)
    assert (first.ext, first.body) == ({"changed": "true"}, b"")
    await asker.register()
    (live,) = server.table.live.values()
    live.last_heard_ms -= 60_000
    silent_since_ms = live.last_heard_ms
    known = await ask(RequestCode.QUERY_DATA_VERSION, BROKER, same)
    assert known.ext == {"changed": "false"}
    assert live.last_heard_ms >= silent_since_ms + 60_000
    assert content(known) == {
        "counter": 7,
        "stateVersion": 0,
        "timestamp": 1_700_000_000_000,
    }
    newer = encode_body(DataVersion(counter=8, timestamp=VERSION.timestamp))
    assert (await ask(RequestCode.QUERY_DATA_VERSION, BROKER, newer)).ext == {"changed": "true"}


async def test_an_unregistered_broker_is_gone_at_once(asker: Asker) -> None:
    """With its topics."""
    await asker.register()
    assert (await asker.ask(RequestCode.UNREGISTER_BROKER, BROKER)).code == 0
    assert (await asker.route()).code == 17


async def test_a_closed_connection_unregisters_its_broker(server: NameServer, asker: Asker) -> None:
    """Without waiting for any time-out; one that had registered anew elsewhere stays."""
    async with await connect(server) as first, await connect(server) as second:
        await first.register()
        await second.register(BROKER_B)
        await second.register()  # broker-a again, on another connection
        first.writer.close()
        assert (await asker.route()).code == 0
        await asyncio.sleep(0.05)
        names = {each["brokerName"] for each in content(await asker.route())["brokerDatas"]}
        assert names == {"broker-a", "broker-b"}
        second.writer.close()
        await until(lambda: not server.table.brokers)
    assert (await asker.route()).code == 17


async def test_a_silent_broker_expires_by_its_own_time_out(
    server: NameServer, asker: Asker
) -> None:
    """Its connection is closed, too; one that is heard stays."""
    async with await connect(server) as silent, await connect(server) as heard:
        await silent.register({"heartbeatTimeoutMillis": "300"})
        await heard.register({"heartbeatTimeoutMillis": "2000"} | BROKER_B)
        while "broker-a" in server.table.brokers:
            await heard.ask(RequestCode.BROKER_HEARTBEAT, BROKER | BROKER_B)
            await asyncio.sleep(0.02)
        assert await silent.closed()
        assert set(server.table.brokers) == {"broker-b"}
        await until(lambda: not server.table.brokers)
        assert await heard.closed()


@pytest.mark.settings(need_wait_for_service=True, wait_for_service_s=3600)
async def test_routes_may_wait_for_brokers(asker: Asker) -> None:
    """A nameserver that just started can be told not to say "no such topic" yet."""
    await asker.register()
    reply = await asker.route()
    assert (reply.code, reply.remark) == (1, "name server not ready")


async def test_zones_are_told_apart(asker: Asker) -> None:
    """A client that names its zone sees the brokers of that zone."""
    await asker.register({"__ZONE_NAME": "z1"})
    await asker.register(BROKER_B | {"__ZONE_NAME": "z2"})
    zone = {"__ZONE_MODE": "true", "__ZONE_NAME": "z2"}
    brokers = content(await asker.route(fields=zone))["brokerDatas"]
    assert [(each["brokerName"], each["zoneName"]) for each in brokers] == [("broker-b", "z2")]
    assert len(content(await asker.route())["brokerDatas"]) == 2


@pytest.mark.parametrize("code", [9, 10, 99_999])
async def test_an_unknown_code_is_answered(asker: Asker, code: int) -> None:
    """With RocketMQ's code and text."""
    reply = await asker.ask(code)
    assert (reply.code, reply.remark) == (3, f" request type {code} not supported")


def test_every_code_is_served_or_listed_with_a_reason() -> None:
    """Nothing of RocketMQ's nameserver is forgotten, nothing is both."""
    served = [code for family in FAMILIES for code in family.table]
    assert len(served) == len(set(served))
    assert set(served).isdisjoint(UNSERVED)
    assert set(served) | set(UNSERVED) == NAMESRV_CODES
    assert set(REQUEST_NAMES) >= NAMESRV_CODES
    assert all(len(reason) > 20 for reason in UNSERVED.values())


async def test_nameservers_know_nothing_of_each_other(tmp_path: Path) -> None:
    """Brokers register with each of them; each answers for itself."""
    servers = [
        NameServer(
            NamesrvSettings(
                bind_address="127.0.0.1", listen_port=0, kv_config_path=tmp_path / f"{number}.json"
            )
        )
        for number in range(2)
    ]
    pool = ConnectionPool()
    for each in servers:
        await each.start()
    registration = Command(code=RequestCode.REGISTER_BROKER, ext=BROKER, body=BODY)
    ask = Command(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": "orders"})
    first, second = (f"127.0.0.1:{each.port}" for each in servers)
    await pool.call(first, registration, 5)
    assert [(await pool.call(each, ask, 5)).code for each in (first, second)] == [0, 17]
    await pool.call(second, registration, 5)
    await servers[0].stop()
    assert (await pool.call(second, ask, 5)).code == 0
    await servers[1].stop()
    await pool.close()


async def test_hostile_bytes_do_not_disturb_others(server: NameServer, asker: Asker) -> None:
    """Deep JSON, endless headers and cut frames of one peer leave another's requests alone."""
    await asker.register()
    hostile = [
        encode_frame(Command(code=103, ext=BROKER, body=b'{"a":' * 200_000)),
        encode_frame(Command(code=103, ext=BROKER, body=b"[" * 1_000_000)),
        encode_frame(Command(code=105, ext={f"k{n}": "v" for n in range(100_000)})),
        b"\x00\x10\x00\x00\x00\x0f\xff\xf0" + b"{" * 100_000,
        b"\xff" * 1000,
    ]
    for data in hostile:
        async with await connect(server) as peer:
            await peer.send(data)
            assert (await asker.route()).code == 0
    assert (await asker.route()).code == 0
