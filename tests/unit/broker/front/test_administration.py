"""A port of their own for operators: what is served where, and that nothing is without one."""

from pathlib import Path

import pytest
from support.code_names import REQUEST_NAMES
from support.features.access import ROOT, asking_broker, signed
from support.servers.live_broker import LiveBroker, live_broker

from aerobee.broker.front.administration import ADMINISTRATION
from aerobee.remoting.codes import RequestCode as Code
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Command

DENIED = ResponseCode.NO_PERMISSION
TOPIC = {"topic": "t", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6",
         "topicFilterType": "SINGLE_TAG", "defaultTopic": "TBW102"}  # fmt: skip


async def ask(live: LiveBroker, port: int, code: int, ext: dict[str, str]) -> Command:
    """Ask on one of the ports."""
    body = b"x" if code == Code.SEND_MESSAGE_V2 else b""
    return await live.pool.call(f"127.0.0.1:{port}", Command(code, ext, body), 10.0)


async def test_changes_are_served_on_its_port_alone(tmp_path: Path) -> None:
    """On the others they are refused whoever asks; everything else is served on all three."""
    async with live_broker(tmp_path, admin_port=0) as live:
        admin, main = live.broker.context.front.ports.admin_port, live.broker.port
        assert admin not in (None, main, main - 2)
        assert admin is not None
        for code in sorted(ADMINISTRATION):
            for port in (main, main - 2):
                reply = await ask(live, port, code, {})
                assert (reply.code, "adminPort" in (reply.remark or "")) == (DENIED, True), (
                    REQUEST_NAMES[code]
                )
            assert "adminPort" not in ((await ask(live, admin, code, {})).remark or "")
        assert (await ask(live, admin, Code.UPDATE_AND_CREATE_TOPIC, TOPIC)).code == 0
        send = {"a": "p", "b": "t", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1",
                "h": "0"}  # fmt: skip
        for port in (main, main - 2, admin):
            for code, ext in ((Code.SEND_MESSAGE_V2, send), (Code.GET_BROKER_RUNTIME_INFO, {})):
                assert (await ask(live, port, code, ext)).code == 0
        live.broker.live.change(live.broker.settings.changed({"regionId": "here"}))
        assert (await ask(live, admin, Code.SEND_MESSAGE_V2, send)).code == 0


async def test_who_is_nobody_is_told_that_first(tmp_path: Path) -> None:
    """With access control the port is no secret of those who may not ask."""
    async with asking_broker(tmp_path, admin_port=0) as asked:
        admin, main = asked.live.broker.context.front.ports.admin_port, asked.live.broker.port
        assert admin is not None
        reply = await ask(asked.live, main, Code.AUTH_LIST_USER, {})
        assert reply.remark == "username cannot be null."
        reply = await ask(asked.live, main, Code.AUTH_LIST_USER, signed(ROOT, {}))
        assert "adminPort" in (reply.remark or "")
        assert (await ask(asked.live, admin, Code.AUTH_LIST_USER, {})).code == DENIED
        assert (await ask(asked.live, admin, Code.AUTH_LIST_USER, signed(ROOT, {}))).code == 0


async def test_without_it_nothing_is_refused(tmp_path: Path) -> None:
    """As RocketMQ serves it; a port that is taken is named, and the others are closed again."""
    async with live_broker(tmp_path / "a") as live:
        assert live.broker.context.front.ports.admin_port is None
        assert (await live.ask(Code.UPDATE_AND_CREATE_TOPIC, TOPIC)).code == 0
        with pytest.raises(OSError, match=rf"127\.0\.0\.1:{live.broker.port}"):
            async with live_broker(tmp_path / "b", admin_port=live.broker.port):
                pass


async def test_it_may_listen_elsewhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Operators on the machine itself, clients in the network."""
    caplog.set_level("INFO")
    async with live_broker(
        tmp_path, bind_address="0.0.0.0", admin_port=0, admin_bind_address="127.0.0.1"
    ) as live:
        admin = live.broker.context.front.ports.admin_port
        (serves,) = [text for text in caplog.messages if text.startswith("broker_serves")]
        assert serves.endswith(f"admin=127.0.0.1:{admin}")
        (is_open,) = [text for text in caplog.messages if text.startswith("broker_is_open")]
        assert f"listens=0.0.0.0:{live.broker.port}: beyond" in is_open
