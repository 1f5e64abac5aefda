"""The nameserver through its socket: the KV table, and what tools ask and change."""

import json

import pytest
from support.asker import TOPICS, Asker, connect, content

from aerobee.namesrv.app import NameServer
from aerobee.remoting.codes import RequestCode


@pytest.mark.settings(order_message_enable=True)
async def test_order_topics_are_told_to_brokers_and_clients(asker: Asker) -> None:
    """The KV namespace ORDER_TOPIC_CONFIG goes into registrations and routes."""
    put = {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders", "value": "broker-a:4"}
    assert (await asker.ask(RequestCode.PUT_KV_CONFIG, put)).code == 0
    reply = await asker.register()
    assert content(reply) == {"table": {"orders": "broker-a:4"}}
    assert content(await asker.route())["orderTopicConf"] == "broker-a:4"
    assert "orderTopicConf" not in content(await asker.route("TBW102"))


@pytest.mark.settings(return_order_topic_config_to_broker=False)
async def test_order_topics_stay_away_where_not_wanted(asker: Asker) -> None:
    """Neither in the registration's reply nor, by default, in routes."""
    put = {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders", "value": "broker-a:4"}
    await asker.ask(RequestCode.PUT_KV_CONFIG, put)
    assert (await asker.register()).body == b""
    assert "orderTopicConf" not in content(await asker.route())


async def test_the_kv_table_is_kept_across_a_restart(server: NameServer, asker: Asker) -> None:
    """Put, get, list and delete, and all of it in another nameserver over the same file."""
    entry = {"namespace": "ns", "key": "k"}
    missing = await asker.ask(RequestCode.GET_KV_CONFIG, entry)
    assert (missing.code, missing.remark) == (22, "No config item, Namespace: ns Key: k")
    nothing = await asker.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "ns"})
    assert (nothing.code, nothing.remark) == (22, "No config item, Namespace: ns")
    for key in ("k", "l"):
        await asker.ask(RequestCode.PUT_KV_CONFIG, {"namespace": "ns", "key": key, "value": "v"})
    assert (
        await asker.ask(RequestCode.DELETE_KV_CONFIG, {"namespace": "ns", "key": "l"})
    ).code == 0
    await server.stop()

    again = NameServer(server.settings)
    await again.start()
    async with await connect(again) as other:
        assert (await other.ask(RequestCode.GET_KV_CONFIG, entry)).ext == {"value": "v"}
        table = await other.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "ns"})
        assert content(table) == {"table": {"k": "v"}}
    await again.stop()


async def test_a_topic_is_registered_and_deleted(asker: Asker) -> None:
    """217 adds a topic to known brokers, 216 removes it."""
    await asker.register()
    queues = [{"brokerName": "broker-a", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}]
    body = json.dumps({"queueDatas": queues}).encode()
    code = RequestCode.REGISTER_TOPIC_IN_NAMESRV
    assert (await asker.ask(code, {"topic": "hand-made"}, body)).code == 0
    assert content(await asker.route("hand-made"))["queueDatas"][0]["perm"] == 6
    gone = await asker.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "hand-made"})
    assert gone.code == 0
    assert (await asker.route("hand-made")).code == 17


async def test_write_permission_is_wiped_and_added(asker: Asker) -> None:
    """Each tells how many topics it touched."""
    await asker.register()
    name = {"brokerName": "broker-a"}
    wiped = await asker.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, name)
    assert wiped.ext == {"wipeTopicCount": "2"}
    assert content(await asker.route())["queueDatas"][0]["perm"] == 4
    added = await asker.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, name)
    assert added.ext == {"addTopicCount": "2"}


async def test_topics_are_listed(asker: Asker) -> None:
    """All of them, those of a cluster, those of the system, those of units."""
    await asker.register()

    async def listed(code: int, **fields: str) -> set[str]:
        return set(content(await asker.ask(code, fields))["topicList"])

    assert await listed(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == set(TOPICS)
    cluster = await listed(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="DefaultCluster")
    assert cluster == set(TOPICS)
    system = await listed(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    assert system == {"DefaultCluster", "broker-a"}
    for code in (
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    ):
        assert await listed(code) == set()


@pytest.mark.settings(enable_all_topic_list=False, enable_topic_list=False)
async def test_topic_lists_can_be_switched_off(asker: Asker) -> None:
    """They say so."""
    for code, fields in {206: {}, 224: {"cluster": "c"}, 311: {}, 312: {}, 313: {}}.items():
        reply = await asker.ask(code, fields)
        assert (reply.code, reply.remark) == (1, "disable")


async def test_a_group_lists_its_members(asker: Asker) -> None:
    """901 tells the addresses by broker id."""
    await asker.register()
    ext = {"clusterName": "DefaultCluster", "brokerName": "broker-a"}
    reply = await asker.ask(RequestCode.GET_BROKER_MEMBER_GROUP, ext)
    group = content(reply)["brokerMemberGroup"]
    assert group["brokerAddrs"] == {"0": "10.0.0.1:10911"}


@pytest.mark.settings(tls_server_key_password="secret")
async def test_settings_are_shown_without_passwords(asker: Asker) -> None:
    """319 answers properties text under RocketMQ's keys."""
    text = bytes((await asker.ask(RequestCode.GET_NAMESRV_CONFIG)).body).decode()
    assert "scanNotActiveBrokerInterval=20\n" in text
    assert "secret" not in text
