"""Metrics that are sent to a collector."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from support.servers.live_broker import LiveBroker, fill, live_broker, small_settings
from support.stand_ins.collector import Collector, collecting
from support.waiting import until

from aerobee.broker.features.metrics.feature import MetricsSender
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.config.settings import SettingsError

HEADER: Final = {"a": "p", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}


def sending_to(collector: Collector, **settings: Any) -> dict[str, Any]:
    """Return the settings of a broker that sends its metrics, not by itself during a test."""
    return {
        "metrics_exporter_type": "OTLP_GRPC",
        "metrics_grpc_exporter_target": collector.address,
        "metric_grpc_exporter_interval_in_mills": 3_600_000,
        **settings,
    }


def sender(live: LiveBroker) -> MetricsSender:
    """Return what sends."""
    (found,) = (room for room in live.broker.rooms if isinstance(room, MetricsSender))
    return found


def attributes(point: Any) -> dict[str, str]:
    """Return the labels of a point."""
    return {each.key: each.value.string_value for each in point.attributes}


async def test_a_collector_gets_every_metric_by_rocketmqs_instruments(tmp_path: Path) -> None:
    """Without the units in their names; with headers, in batches, from the broker's meter."""
    with collecting() as collector:
        header = {"metrics_grpc_exporter_header": "Authorization:Bearer a:b,x-team:mq"}
        settings = sending_to(collector, metrics_export_batch_max_data_points=20, **header)
        async with live_broker(tmp_path, **settings) as live:
            await fill(live, b"x" * 100)
            await sender(live)._send()
            text = dict(live.broker.settings.chosen())
            assert text["metricsGrpcExporterHeader"] == "******"
        assert len(collector.requests) > 2, "they come in batches"
        assert {each["authorization"] for each in collector.headers} == {"Bearer a:b"}
        assert {each["x-team"] for each in collector.headers} == {"mq"}
        units = {metric.name: metric.unit for metric in collector.metrics()}
        assert units["rocketmq_consumer_lag_latency"] == "milliseconds"
        assert units["rocketmq_storage_size"] == "bytes"
        assert units["rocketmq_messages_in_total"] == ""
        (arrived, *_) = (
            point
            for point in collector.points("rocketmq_messages_in_total")
            if attributes(point)["topic"] == "t"
        )
        assert arrived.as_int == 2 or arrived.as_double == 2
        assert attributes(arrived) == {
            "cluster": "DefaultCluster", "node_id": "broker-a", "node_type": "broker",
            "topic": "t", "message_type": "normal", "is_system": "false",
        }  # fmt: skip
        spread = next(m for m in collector.metrics() if m.name == "rocketmq_rpc_latency")
        assert list(spread.histogram.data_points[0].explicit_bounds)[:3] == [1, 3, 5]
        scopes = {s.scope.name for r in collector.requests for m in r.resource_metrics
                  for s in m.scope_metrics}  # fmt: skip
        assert scopes == {"broker-meter"}


async def test_only_growth_is_sent_where_that_is_asked_for(tmp_path: Path) -> None:
    """What did not get there is in the next growth; the sum is what there is."""
    with collecting() as collector:
        settings = sending_to(collector, metrics_in_delta=True)
        async with live_broker(tmp_path, **settings) as live:
            for takes in (True, False, True):
                await live.ask(RequestCode.SEND_MESSAGE_V2, HEADER, b"x")
                collector.takes = takes
                await sender(live)._send()
        arrived = [
            point.as_int or point.as_double
            for point in collector.points("rocketmq_messages_in_total")
            if attributes(point)["topic"] == "t"
        ]
        assert arrived == [1, 2, 0], "the last one is that of the stop"
        kinds = {
            attributes(point)["aggregation"] for point in collector.points("rocketmq_topic_number")
        }
        assert kinds == {"delta"}
        spread = [m for m in collector.metrics() if m.name == "rocketmq_rpc_latency"]
        assert {each.histogram.aggregation_temporality for each in spread} == {1}


async def test_a_collector_that_is_away_holds_up_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told once, by `/readyz` too, and once that they get there again."""
    caplog.set_level(logging.INFO)
    with collecting() as collector:
        async with live_broker(tmp_path, http_port=0, **sending_to(collector)) as live:
            collector.takes = False
            for _ in range(2):
                await sender(live)._send()
            assert (await live.ask(RequestCode.SEND_MESSAGE_V2, HEADER, b"x")).code == 0
            status, text = await live.get("/readyz")
            assert status == 200 and f"metrics do not reach {collector.address}: " in text
            _, text = await live.get("/metrics")
            assert "aerobee_metrics_exports_failed_total{" in text
            collector.takes = True
            await sender(live)._send()
            assert (await live.get("/readyz"))[1] == "ready\n"
    said = [each.split()[0] for each in caplog.messages if each.startswith("metrics_")]
    assert said == ["metrics_not_sent", "metrics_sent_again"]


async def test_they_are_sent_again_and_again_and_at_the_end(tmp_path: Path) -> None:
    """What a short life has counted is not lost with its last interval."""
    with collecting() as collector:
        settings = sending_to(collector, metric_grpc_exporter_interval_in_mills=50)
        async with live_broker(tmp_path, **settings) as live:
            await until(lambda: len(collector.points("rocketmq_topic_number")) > 2)
            await live.ask(RequestCode.SEND_MESSAGE_V2, HEADER, b"x")
        arrived = collector.points("rocketmq_messages_in_total")
        assert "t" in {attributes(point)["topic"] for point in arrived}


def test_nothing_is_imported_where_nobody_wants_it(tmp_path: Path) -> None:
    """Not the sender, nor gRPC, nor what collects."""
    program = (
        "import asyncio, sys\nfrom pathlib import Path\n"
        "from support.servers.live_broker import live_broker\n"
        "async def main():\n"
        "    async with live_broker(Path(sys.argv[1])) as live:\n"
        "        wanted = ('grpc', 'opentelemetry', 'aerobee.broker.measures.collecting',\n"
        "                  'aerobee.broker.features.metrics.feature')\n"
        "        print([each for each in wanted if each in sys.modules])\n"
        "asyncio.run(main())\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[4])}
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("metricsExporterType", "LOG"),
        ("metricsExporterType", "3"),
        ("metricsGrpcExporterTarget", "collector"),
        ("metricsGrpcExporterTarget", "http" + "://collector:0"),
        ("metricsGrpcExporterHeader", "no colon"),
        ("metricsLabel", "a b:c"),
        ("metricsLabel", "__name__:c"),
        ("metricsLabel", "zone"),
    ],
)
def test_a_value_that_cannot_be_is_refused(tmp_path: Path, key: str, value: str) -> None:
    """At the start, and with the key; what is sent in vain would be missed late."""
    with pytest.raises(SettingsError, match=f"{key} cannot be"):
        small_settings(tmp_path).changed({key: value})


@pytest.mark.parametrize(("given", "kind"), [("0", "DISABLE"), ("2", "PROM"), ("prom", "PROM")])
def test_a_kind_may_be_a_number(tmp_path: Path, given: str, kind: str) -> None:
    """RocketMQ takes both."""
    settings = small_settings(tmp_path).changed({"metricsExporterType": given})
    assert settings.metrics_exporter_type == kind
