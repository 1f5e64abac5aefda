"""Two brokers of one name and two stores: whoever can see it says so."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.interop.processes import free_port
from support.servers.live_broker import live_broker, small_settings

from aerobee.broker.app import Broker
from aerobee.broker.cluster.twins import QUIET_LOOKS, NameInUse
from aerobee.namesrv.app import NameServer
from aerobee.namesrv.settings import NamesrvSettings


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NameServer]:
    """A nameserver."""
    made = NameServer(
        NamesrvSettings(listen_port=0, bind_address="127.0.0.1", kv_config_path=tmp_path / "kv")
    )
    await made.start()
    yield made
    await made.stop()


def told(caplog: pytest.LogCaptureFixture, logger: str) -> list[logging.LogRecord]:
    """Return what one side said of twins."""
    return [
        record
        for record in caplog.records
        if record.name.startswith(f"aerobee.{logger}") and "broker_twin " in record.getMessage()
    ]


async def test_a_second_broker_of_one_name_is_told_on_all_sides(
    tmp_path: Path, server: NameServer, caplog: pytest.LogCaptureFixture
) -> None:
    """At the one that comes, at the one that was there, and at the nameserver; each once."""
    namesrv = f"127.0.0.1:{server.port}"
    async with (
        live_broker(tmp_path / "one", namesrv_addr=namesrv) as one,
        live_broker(tmp_path / "two", namesrv_addr=namesrv) as two,
    ):
        (line,) = told(caplog, "broker")
        assert line.levelno == logging.ERROR
        assert f"this={two.address} other={one.address}" in line.getMessage()
        for _ in range(3):
            for each in (one, two):
                await each.broker.context.cluster.twins.look()
                await each.broker.context.cluster.registration.announce_all()
        texts = [record.getMessage() for record in told(caplog, "broker")]
        assert len(texts) == 2
        assert f"this={one.address} other={two.address}" in texts[1]
        (line,) = told(caplog, "namesrv")
        assert line.levelno == logging.WARNING
        text = f"name=broker-a id=0 was_at={one.address} now_at={two.address}"
        assert text in line.getMessage() and "still connected" in line.getMessage()
    assert "broker_twin_gone" not in caplog.text


async def test_a_twin_that_goes_is_forgotten(
    tmp_path: Path, server: NameServer, caplog: pytest.LogCaptureFixture
) -> None:
    """And told again when another one comes."""
    caplog.set_level(logging.INFO, "aerobee")
    namesrv = f"127.0.0.1:{server.port}"
    async with live_broker(tmp_path / "one", namesrv_addr=namesrv) as one:
        twins = one.broker.context.cluster.twins
        async with live_broker(tmp_path / "two", namesrv_addr=namesrv) as two:
            await twins.look()
            assert twins.at == two.address
        for _ in range(QUIET_LOOKS):
            assert twins.at == two.address
            await twins.look()
        assert twins.at == ""
        assert f"broker_twin_gone was_at={two.address}" in caplog.text


async def test_a_broker_may_refuse_to_start_beside_another(
    tmp_path: Path, server: NameServer
) -> None:
    """Clients go on with the one that was there: the other never registers, and leaves no trace."""
    namesrv = f"127.0.0.1:{server.port}"
    async with live_broker(tmp_path / "one", namesrv_addr=namesrv) as one:
        settings = small_settings(tmp_path / "two", namesrv_addr=namesrv, refuse_name_in_use=True)
        with pytest.raises(NameInUse, match=f"in use by the broker at {one.address}"):
            await Broker(settings).start()
        assert server.table.brokers["broker-a"].addresses == {0: one.address}
        assert not (settings.store_path_root_dir / "abort").exists()


async def test_the_place_of_a_broker_that_is_gone_is_nobodys(
    tmp_path: Path, server: NameServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker that comes back on another port after a crash is not its own twin."""
    namesrv = f"127.0.0.1:{server.port}"
    async with live_broker(tmp_path / "one", namesrv_addr=namesrv) as one:
        registration = one.broker.context.cluster.registration
        registration.address = "127.0.0.1:1"  # where nobody answers
        await registration.announce_all()
        async with live_broker(tmp_path / "two", namesrv_addr=namesrv, refuse_name_in_use=True):
            assert not told(caplog, "broker")


async def test_who_answers_at_an_old_address_need_not_be_a_twin(
    tmp_path: Path, server: NameServer, caplog: pytest.LogCaptureFixture
) -> None:
    """After a machine was lost its address may be that of a broker of another name, or our own."""
    namesrv = f"127.0.0.1:{server.port}"
    port = free_port(also_below=2)
    async with (
        live_broker(tmp_path / "one", namesrv_addr=namesrv) as one,
        live_broker(tmp_path / "other", broker_name="broker-b") as other,
    ):
        registration = one.broker.context.cluster.registration
        registration.address = other.address
        await registration.announce_all()
        refuses = {"namesrv_addr": namesrv, "refuse_name_in_use": True, "bind_address": ""}
        async with live_broker(tmp_path / "two", listen_port=port, **refuses) as two:
            registration.address = f"127.0.0.2:{port}"  # as it called itself before
            await registration.announce_all()
            await two.broker.context.cluster.twins.look()
            assert two.broker.context.cluster.twins.at == ""
        assert not told(caplog, "broker")
