"""Where metrics are told, and which of them."""

import asyncio
import http.client
from contextlib import closing
from pathlib import Path

from support.servers.live_broker import fill, live_broker

from aerobee.broker.measures.names import BARE
from aerobee.remoting.codes import RequestCode


async def test_rocketmqs_port_has_metrics_alone(tmp_path: Path) -> None:
    """By its names and at its address; whoever comes there sees nothing else of the broker."""
    prom = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 0}
    async with live_broker(tmp_path, **prom) as live:
        assert live.broker.http_port is None
        port = live.broker.metrics_port
        assert port is not None

        def ask(path: str) -> tuple[int, str]:
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as client:
                client.request("GET", path)
                reply = client.getresponse()
                return reply.status, reply.read().decode()

        status, text = await asyncio.to_thread(ask, "/metrics")
        assert status == 200 and "rocketmq_storage_size_bytes{" in text
        assert not {f"# HELP {name} " for name in BARE if f"# HELP {name} " in text}
        for path in ("/api/broker", "/readyz", "/healthz"):
            assert (await asyncio.to_thread(ask, path))[0] == 404


async def test_families_of_metrics_can_be_switched_off(tmp_path: Path) -> None:
    """By RocketMQ's keys, at once; a label comes to every series as fast."""
    async with live_broker(tmp_path, http_port=0) as live:
        await fill(live, b"x")
        changed = b"enableLagAndDlqMetrics=false\nenableStatsMetrics=false\n"
        changed += b"metricsLabel=zone:a,room:b\n"
        reply = await live.ask(RequestCode.UPDATE_BROKER_CONFIG, body=changed)
        assert reply.code == 0, reply.remark
        _, text = await live.get("/metrics")
        assert "rocketmq_consumer_lag" not in text and "rocketmq_topic_number" not in text
        rows = [row for row in text.splitlines() if not row.startswith("#")]
        assert rows and all('zone="a"' in row and 'room="b"' in row for row in rows)
