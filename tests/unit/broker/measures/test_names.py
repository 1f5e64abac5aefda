"""What the metrics are called, and that the list of them says so."""

import re
from pathlib import Path

from support.runs.source_tree import ROOT
from support.servers.live_broker import live_broker

from aerobee.broker.app import Broker
from aerobee.broker.measures.names import BARE, HELP, SWITCHES, UNITS, instrument, switched_off

TEXT = (ROOT / "broker/measures/METRICS.md").read_text()


def named(broker: Broker) -> set[str]:
    """Return every metric that a broker may tell."""
    return set(HELP).union(*(room.metric_help for room in broker.rooms))


def test_a_unit_is_a_part_of_the_name_in_prometheus_alone() -> None:
    """As RocketMQ's exporter has it."""
    assert instrument("rocketmq_consumer_lag_latency_milliseconds") == (
        "rocketmq_consumer_lag_latency",
        "milliseconds",
    )
    assert instrument("rocketmq_storage_flush_behind_bytes") == (
        "rocketmq_storage_flush_behind_bytes",
        "bytes",
    )
    assert instrument("rocketmq_messages_in_total") == ("rocketmq_messages_in_total", "")
    assert all(instrument(name).name == short for short, name in BARE.items())


def test_a_family_is_switched_off_as_a_whole() -> None:
    """And nothing of ours with it."""
    lag = frozenset({"lag_and_dlq"})
    assert switched_off("rocketmq_consumer_lag_messages", lag)
    assert not switched_off("rocketmq_consumer_connections", lag)
    assert not switched_off("aerobee_log_bytes", frozenset(SWITCHES))


async def test_the_list_has_every_metric(tmp_path: Path) -> None:
    """By its whole name, or by the beginning that a feature's share; and it has no others."""
    async with live_broker(tmp_path) as live:
        names = named(live.broker)
    written = set(re.findall(r"`((?:rocketmq|aerobee)_[a-z_]+)", TEXT))
    beginnings = tuple(re.findall(r"`((?:rocketmq|aerobee)_[a-z_]+)\*`", TEXT))
    assert not {name for name in names - written if not name.startswith(beginnings)}
    elsewhere = {each for each in written if any(each in name for name in (*names, *UNITS, *BARE))}
    left_out = {
        "aerobee_metrics_exports_total", "aerobee_metrics_exports_failed_total",  # with a collector
        "aerobee_access_refused_total", "aerobee_access_users",  # with access control
        "aerobee_audit_lines_total", "aerobee_audit_lines_lost_total",  # with an audit log
        "rocketmq_message_size", "rocketmq_rpc_latency", "rocketmq_timer_message_snapshot",
        "rocketmq_pop_", "rocketmq_rocksdb_", "rocketmq_tiered_store_",
    }  # fmt: skip
    features = {each for each in written if each in beginnings}
    assert written - elsewhere - left_out - features == set(), "no metric has this name"
    switched = {each for family in SWITCHES.values() for each in family} - {"message_size"}
    for each in switched:
        assert any(name.startswith(f"rocketmq_{each}") for name in names), each
