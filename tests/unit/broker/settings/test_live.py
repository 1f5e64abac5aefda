"""A setting that is changed while the broker runs is in force everywhere, or says that it is not.

Everything goes through the public door, code 25, as `mqadmin updateBrokerConfig` does.
"""

import gc
import weakref
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from support.raw_peer import RawPeer
from support.servers.brokers import send_command
from support.servers.live_broker import LiveBroker, live_broker
from support.stand_ins.held_values import held_values
from support.waiting import until

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.namesrv.app import NameServer
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.config.settings import Trait

OTHERS = {
    "adminAllowedNetworks": "10.0.0.0/8",
    "namesrvAddr": "127.0.0.1:1",
    "deleteWhen": "05",
    "fullReplyMessagesMax": "255",
    "regionId": "elsewhere",
    "logLevel": "WARNING",
    "logLevels": "broker.sends=ERROR",
    "metricsLabel": "zone:a",
    "rocketmq.broker.diskSpaceCleanForciblyRatio": "0.84",
    "rocketmq.broker.diskSpaceWarningLevelRatio": "0.89",
    "configBlackList": "configBlackList;brokerConfigPath;flushDiskType",
}
UNCHANGEABLE = {"defaultMessageRequestMode"}  # has one allowed value
TIMES = (
    "._ahead_s",  # of a clock, which two brokers read at two moments
    "._next_sweep",
    ".use.ratio",
    ".use.counted",
    "._room_bytes",
    ".log_cache._begin",
    ".in_time_until_s",
)  # what two brokers may have alike by chance
LIVE = sorted(set(BrokerSettings.model_fields) - BrokerSettings.having(Trait.AT_START))


def other(settings: BrokerSettings, name: str) -> str:
    """Return another value that a setting may have."""
    key, value = settings.keys()[name], getattr(settings, name)
    if key in OTHERS:
        return OTHERS[key]
    if isinstance(value, bool):
        return str(not value).lower()
    assert isinstance(value, int), f"no other value is known for {key}"
    return str(value - 1 if value in (7, 6, 85, 90, 95) else value + 1)


async def change(live: LiveBroker, properties: dict[str, str]) -> str:
    """Change settings as an operator does; return what the broker says."""
    text = "".join(f"{key}={value}\n" for key, value in properties.items())
    reply = await live.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return reply.remark or ""


def changes(settings: BrokerSettings) -> dict[str, str]:
    """Return another value for every key that works at once; never changed are some keys."""
    keys = settings.keys()
    names = [name for name in LIVE if keys[name] not in UNCHANGEABLE | {"configBlackList"}]
    return {keys[name]: other(settings, name) for name in names}


async def test_no_part_keeps_an_old_value(tmp_path: Path) -> None:
    """After a change a broker is, in every part, one that was started with the new values.

    Two brokers that were started alike show what differs by itself: times, ports, counts.
    """
    async with AsyncExitStack() as stack:

        async def broker(name: str, **settings: Any) -> LiveBroker:
            made = await stack.enter_async_context(live_broker(tmp_path / name, **settings))
            made.broker.context.writing.queues.get("BenchmarkTest", 0)
            return made

        before, again, changed = [await broker(name) for name in ("before", "again", "changed")]
        wanted = changes(before.broker.settings)
        new = before.broker.settings.changed(wanted)
        given = {name: getattr(new, name) for name in LIVE}
        started = await broker("started", **given)
        await change(changed, wanted)
        old, same, now, right = (
            held_values(each.broker) for each in (before, again, changed, started)
        )
        depends = {
            path
            for path in old.keys() & same.keys() & right.keys() & now.keys()
            if old[path] == same[path] != right[path] and not path.endswith(TIMES)
        }
        assert len(depends) > len(LIVE), "every setting shows, and what was made of some"
        stale = {path: now[path] for path in depends if now[path] != right[path]}
        assert not stale, f"not followed: {stale}"


async def test_old_settings_are_forgotten(tmp_path: Path) -> None:
    """Nothing of a running broker holds on to the value that was in force before."""
    async with live_broker(tmp_path) as live:
        old = weakref.ref(live.broker.settings)
        await change(live, {"traceOn": "false"})
        gc.unfreeze()
        gc.collect()
        assert old() is None


@pytest.mark.parametrize("compiled", [True, False])
async def test_acknowledgements_follow_region_and_trace(tmp_path: Path, compiled: bool) -> None:
    """On the fast path, too, and for queues that were used before."""
    async with (
        live_broker(tmp_path, compiled_fast_path=compiled) as live,
        await RawPeer.connect(live.broker.port) as peer,
    ):
        for _ in range(3):
            reply = await peer.request(send_command())
        assert (reply.ext["MSG_REGION"], reply.ext["TRACE_ON"]) == ("DefaultRegion", "true")
        await change(live, {"regionId": "elsewhere", "traceOn": "false"})
        for _ in range(3):
            reply = await peer.request(send_command())
            assert (reply.ext["MSG_REGION"], reply.ext["TRACE_ON"]) == ("elsewhere", "false")


async def test_limits_of_offsets_follow(tmp_path: Path) -> None:
    """How many there may be, and after how many commits their version rises."""
    async with live_broker(tmp_path, default_topic_queue_nums=128) as live:
        await live.ask(
            RequestCode.SEND_MESSAGE_V2,
            {"a": "p", "b": "t", "c": "TBW102", "d": 128, "e": 0, "f": 0, "g": 1, "h": 0},
            b"x",
        )
        await change(live, {"offsetsMax": "100", "consumerOffsetUpdateVersionStep": "10"})
        offsets = live.broker.context.tables.offsets
        version = offsets.data_version.counter
        taken = [offsets.commit("g", "t", queue_id, 1) for queue_id in range(110)]
        assert taken == [True] * 100 + [False] * 10
        assert offsets.data_version.counter == version + 10


async def test_nameservers_follow(tmp_path: Path) -> None:
    """New ones are registered with, those no longer named are taken leave of."""
    async with AsyncExitStack() as stack:
        servers = []
        for name in ("one", "two"):
            server = NameServer(
                NamesrvSettings(
                    listen_port=0, bind_address="127.0.0.1", kv_config_path=tmp_path / name
                )
            )
            await server.start()
            stack.push_async_callback(server.stop)
            servers.append(server)
        addresses = [f"127.0.0.1:{server.port}" for server in servers]
        live = await stack.enter_async_context(live_broker(tmp_path, namesrv_addr=addresses[0]))

        def known() -> list[bool]:
            return ["broker-a" in server.table.brokers for server in servers]

        assert known() == [True, False]
        await change(live, {"namesrvAddr": addresses[1]})
        await until(lambda: known() == [False, True], what="the broker has moved")
        await change(live, {"namesrvAddr": ";".join(addresses)})
        await until(lambda: known() == [True, True], what="both know it")
        assert live.broker.context.cluster.registration.registered


async def test_topics_are_made_by_use_once_that_is_allowed(tmp_path: Path) -> None:
    """Also by a broker that was started without the model of such topics."""
    header = {"a": "p", "b": "new", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
    async with live_broker(tmp_path, auto_create_topic_enable=False) as live:
        refused = await live.ask(RequestCode.SEND_MESSAGE_V2, header, b"x")
        assert refused.code == ResponseCode.TOPIC_NOT_EXIST
        await change(live, {"autoCreateTopicEnable": "true"})
        reply = await live.ask(RequestCode.SEND_MESSAGE_V2, header, b"x")
        assert reply.code == ResponseCode.SUCCESS, reply.remark


async def test_each_key_says_when_it_works(tmp_path: Path) -> None:
    """The answer names the keys that work now; a broker without a file refuses the others."""
    async with live_broker(tmp_path) as live:
        settings = live.broker.settings
        for key, value in changes(settings).items():
            said = await change(live, {key: value})
            assert said.startswith("works now") and said.endswith(f": {key}")
        for name in BrokerSettings.having(Trait.AT_START) & {"listen_port", "log_format"}:
            key = settings.keys()[name]
            said = await change(live, {key: dict(settings.items())[key]})
            assert said == f"works already, as they are: {key}"
