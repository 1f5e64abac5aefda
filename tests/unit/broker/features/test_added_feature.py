"""Adding a feature touches its room, the list, and where keys are collected: nothing else."""

import asyncio
import importlib
from pathlib import Path
from typing import Any, Final

import pytest
from support.servers.live_broker import LiveBroker, small_settings
from support.waiting import until

from aerobee.broker import app
from aerobee.broker.cluster.twins import Twins
from aerobee.broker.features.http import exposition
from aerobee.broker.features.http.feature import HttpServer
from aerobee.broker.features.listed import FEATURES, Listed
from aerobee.broker.processors.runtime_info import runtime_info
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.net.client import ConnectionPool

CODE: Final = 90_002
KEYS: Final = """
from aerobee.remoting.config.settings import ServerSettings

class CricketKeys(ServerSettings):
    crickets: bool = False
    chirps_at_once: int = 1
"""
FEATURE: Final = """
from aerobee.broker.features.feature import Feature
from aerobee.broker.room import Sample, Work
from aerobee.remoting.net.routes import Reply, Routes

class Crickets(Feature):
    def __init__(self, parts):
        self.live, self.chirps, self.life, self.gone = parts.live, 0, ["made"], 0
        self.answers = Routes("crickets")
        self.answers.on(90_002)(lambda _, request: Reply(body=b"%d" % self.chirps))
        self.on_closed = (self._closed,)

    async def start(self):
        self.life.append("started")

    async def stop(self):
        self.life.append("stopped")

    def close(self):
        self.life.append("closed")

    def background(self):
        return (Work("crickets", self._chirp, 0.01),)

    @property
    def metric_help(self):
        return {"aerobee_chirps_total": "Chirps of all crickets"}

    def samples(self):
        yield Sample("aerobee_chirps_total", self.chirps)

    def runtime_info(self):
        return {"chirps": str(self.chirps)}

    def _chirp(self):
        self.chirps += self.live.current.chirps_at_once

    def _closed(self, connection):
        self.gone += 1

make = Crickets
"""


@pytest.fixture
def kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[BrokerSettings]:
    """A room and its line in the list; return settings that have its keys, too."""
    room = tmp_path / "cricket_room"
    room.mkdir()
    room.joinpath("keys.py").write_text(KEYS)
    room.joinpath("feature.py").write_text(FEATURE)
    monkeypatch.syspath_prepend(tmp_path)
    line = Listed("cricket_room.feature", lambda settings: bool(vars(settings)["crickets"]))
    monkeypatch.setattr(app, "FEATURES", (*FEATURES, line))
    keys = importlib.import_module("cricket_room.keys")
    return type("Settings", (keys.CricketKeys, BrokerSettings), {})


async def _broker(kind: type[BrokerSettings], folder: Path, **settings: object) -> LiveBroker:
    values = small_settings(folder).model_dump(exclude_unset=True) | settings
    broker = app.Broker(kind(**values))
    await broker.start()
    return LiveBroker(broker, ConnectionPool())


def _crickets(broker: app.Broker) -> Any:
    return next(each for each in broker.rooms if type(each).__name__ == "Crickets")


async def test_it_serves_works_and_is_measured(kind: type[BrokerSettings], tmp_path: Path) -> None:
    """A request code, a periodic work, a metric, a setting, a life: by the list alone."""
    live = await _broker(kind, tmp_path, crickets=True, chirps_at_once=3)
    broker = live.broker
    room = _crickets(broker)
    try:
        await until(lambda: room.chirps >= 6, what="it has worked twice")
        reply = await live.ask(CODE)
        assert reply.code == 0 and int(reply.body) % 3 == 0
        text = (await exposition.text(broker.context)).decode()
        assert "# HELP aerobee_chirps_total Chirps of all crickets" in text
        assert int(runtime_info(broker.context)["chirps"]) >= 6
        done = await live.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"chirpsAtOnce=1000\n")
        assert done.code == 0 and "chirpsAtOnce" in (done.remark or "")
        await until(lambda: room.chirps >= 1000, what="it follows")
        await live.pool.close()
        await until(lambda: room.gone == 1, what="it hears of the end")
    finally:
        await broker.stop()
    assert room.life == ["made", "started", "stopped", "closed"]


async def test_it_is_not_there_while_nobody_wants_it(
    kind: type[BrokerSettings], tmp_path: Path
) -> None:
    """Its code is unknown, nothing of it is measured; once wanted, it works without a restart."""
    live = await _broker(kind, tmp_path)
    broker = live.broker
    try:
        unknown = await live.ask(CODE)
        assert unknown.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert b"chirps" not in await exposition.text(broker.context)
        count = len(broker.rooms)
        await live.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"crickets=true\n")
        assert len(broker.rooms) == count + 1
        await until(lambda: int(runtime_info(broker.context)["chirps"]) > 0, what="it works")
    finally:
        await asyncio.gather(live.pool.close(), broker.stop())


async def test_one_that_is_wanted_while_the_broker_starts_begins_once(
    kind: type[BrokerSettings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ports are bound before the nameservers are told: somebody may change a setting then."""
    values = small_settings(tmp_path).model_dump(exclude_unset=True)
    broker = app.Broker(kind(**values))
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: Twins) -> None:
        entered.set()
        await go_on.wait()

    monkeypatch.setattr(Twins, "before_start", slow)
    starting = asyncio.create_task(broker.start())
    await entered.wait()
    live = LiveBroker(broker, ConnectionPool())
    try:
        await live.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"crickets=true\n")
        room = _crickets(broker)
        go_on.set()
        await starting
        await until(lambda: room.chirps > 0, what="it works")
        assert room.life == ["made", "started"]
        assert len([task for task in asyncio.all_tasks() if task.get_name() == "crickets"]) == 1
    finally:
        go_on.set()
        await live.pool.close()
        await broker.stop()
    assert room.life == ["made", "started", "stopped", "closed"]


async def test_one_that_is_wanted_during_the_stop_keeps_no_other_from_its_own(
    kind: type[BrokerSettings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTP takes leave of its clients while requests are served; then all work ends."""
    live = await _broker(kind, tmp_path, http_port=0)
    broker = live.broker
    await until(lambda: broker.http_port, what="HTTP is served")
    stop = HttpServer.stop

    async def slow(server: HttpServer) -> None:
        await live.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"crickets=true\n")
        await stop(server)

    monkeypatch.setattr(HttpServer, "stop", slow)
    await broker.stop()
    await live.pool.close()
    assert _crickets(broker).life[-1] == "closed"
    left = {task.get_name() for task in asyncio.all_tasks()} & {"flush", "tables", "registration"}
    assert not left, "what no longer has a store works on"
