"""When a nameserver takes a broker to be gone: by a steady clock, and not because it slept."""

import time
from pathlib import Path

import pytest
from support.asker import BROKER, BROKER_B, VERSION, connect
from support.waiting import until

from aerobee.namesrv.app import NameServer
from aerobee.namesrv.expiry import Expiry
from aerobee.namesrv.route_table import Registration, RouteTable
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.bodies import encode_body
from aerobee.remoting.clocks import LateLooks
from aerobee.remoting.codes import RequestCode


async def test_a_step_of_the_machines_clock_expires_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody sets the time two hours ahead, or back: routes stay, silent brokers still go."""
    settings = NamesrvSettings(
        bind_address="127.0.0.1",
        listen_port=0,
        kv_config_path=tmp_path / "kv.json",
        scan_interval_ms=10,
    )
    server = NameServer(settings)
    await server.start()
    real_ns = time.time_ns
    try:
        async with await connect(server) as broker:
            await broker.register()
            for hours in (2, -2):
                step_ns = hours * 3600 * 10**9
                monkeypatch.setattr(time, "time_ns", lambda by=step_ns: real_ns() + by)
                async with await connect(server) as silent:
                    await silent.register({"heartbeatTimeoutMillis": "30"} | BROKER_B)
                    await until(lambda: "broker-b" not in server.table.brokers)
                assert set(server.table.brokers) == {"broker-a"}
    finally:
        await server.stop()


async def test_a_process_that_was_stopped_hears_its_brokers_first() -> None:
    """What they said while it slept waits in sockets; only who stays silent goes."""
    now_ms = 1000
    table = RouteTable(lambda: now_ms)
    lateness = LateLooks(lambda: now_ms)
    expiry = Expiry(table, 10, lateness)
    for name, address in (("a", "h:1"), ("b", "h:2")):
        table.register(Registration(cluster="c", name=name, broker_id=0, address=address))
    expiry.start()
    try:
        now_ms += 200_000
        await until(lambda: lateness.late or not table.brokers)
        assert set(table.brokers) == {"a", "b"}
        table.touch("c", "h:1", None)
        await until(lambda: "b" not in table.brokers)
        assert set(table.brokers) == {"a"}
    finally:
        expiry.stop()


@pytest.mark.parametrize("code", [RequestCode.QUERY_DATA_VERSION, RequestCode.BROKER_HEARTBEAT])
async def test_a_broker_goes_with_the_connection_it_was_heard_on_last(
    server: NameServer, code: int
) -> None:
    """One that came back and has nothing new to register outlives its old, half-open connection."""
    async with await connect(server) as old, await connect(server) as new:
        await old.register()
        await new.ask(code, BROKER, encode_body(VERSION))
        old.writer.close()
        await until(lambda: server.statistics().connections == 1)
        assert set(server.table.brokers) == {"broker-a"}
        new.writer.close()
        await until(lambda: not server.table.brokers)
