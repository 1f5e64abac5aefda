"""Switches of a nameserver that runs (318), through its socket."""

import pytest
from support.asker import Asker, content

from aerobee.namesrv.app import NameServer
from aerobee.namesrv.settings import CHANGEABLE
from aerobee.remoting.codes import RequestCode, ResponseCode

UPDATE = RequestCode.UPDATE_NAMESRV_CONFIG


async def test_a_switch_works_at_once(server: NameServer, asker: Asker) -> None:
    """The next request sees it, 319 shows it, and the reply says how long it lasts."""
    assert (await asker.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).code == 0
    reply = await asker.ask(UPDATE, body=b"enableAllTopicList=false\nno.such.key=1")
    told = (
        "works now until the nameserver stops (its file is not changed): enableAllTopicList;"
        " means nothing here: no.such.key"
    )
    assert (reply.code, reply.remark) == (0, told)
    refused = await asker.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert (refused.code, refused.remark) == (1, "disable")
    shown = await asker.ask(RequestCode.GET_NAMESRV_CONFIG)
    assert b"enableAllTopicList=false" in bytes(shown.body)
    assert server.settings.enable_all_topic_list, "what it was started with stays"


@pytest.mark.settings(kv_bytes_max=4096)
async def test_only_switches_of_the_list_are_changed(server: NameServer, asker: Asker) -> None:
    """One other key refuses all of them: places in any spelling, limits, ports."""
    keys = set(server.settings.keys().values())
    assert keys > CHANGEABLE
    for key in sorted(keys - CHANGEABLE):
        reply = await asker.ask(UPDATE, body=f"enableTopicList=false\n{key}=1".encode())
        assert reply.code == ResponseCode.NO_PERMISSION, key
    for key in ("kvConfigPath", "KV-config_path", "configStorePath", "rocketmqHome"):
        reply = await asker.ask(UPDATE, body=f"enableTopicList=false\n{key}=/tmp/x".encode())
        assert reply.code == ResponseCode.NO_PERMISSION, key
        assert reply.remark == "Can not update config in black list."
    assert content(await asker.ask(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "no"})) == {
        "topicList": []
    }


async def test_a_value_that_is_not_allowed_changes_nothing(asker: Asker) -> None:
    """Neither the bad key nor the good one beside it."""
    reply = await asker.ask(UPDATE, body=b"enableAllTopicList=false\norderMessageEnable=perhaps")
    assert reply.code == ResponseCode.INVALID_PARAMETER
    assert (await asker.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).code == 0
    assert (await asker.ask(UPDATE, body=b"\xff\xfe")).code == ResponseCode.SYSTEM_ERROR
    assert (await asker.ask(UPDATE)).code == 0


@pytest.mark.settings(admin_allowed_networks="none")
async def test_strangers_change_nothing(asker: Asker) -> None:
    """`none` takes changes from nobody, not from this machine either."""
    reply = await asker.ask(UPDATE, body=b"enableAllTopicList=false")
    assert reply.code == ResponseCode.NO_PERMISSION
    assert "adminAllowedNetworks" in (reply.remark or "")
    assert (await asker.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).code == 0
