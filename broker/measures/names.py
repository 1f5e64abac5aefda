"""What the metrics are called: in Prometheus, in OpenTelemetry, and before they had their units.

RocketMQ names its instruments without a unit (`rocketmq_consumer_lag_latency`, "milliseconds"),
and its Prometheus endpoint appends that. Here a metric has the name that Prometheus sees.
"""

from typing import Final, NamedTuple

UNITS: Final = {
    "rocketmq_consumer_lag_latency_milliseconds": "milliseconds",
    "rocketmq_consumer_queueing_latency_milliseconds": "milliseconds",
    "rocketmq_storage_size_bytes": "bytes",
    "rocketmq_storage_message_reserve_time_milliseconds": "milliseconds",
    "rocketmq_timer_enqueue_latency_milliseconds": "milliseconds",
    "rocketmq_timer_dequeue_latency_milliseconds": "milliseconds",
    "rocketmq_topic_create_execution_time_milliseconds": "milliseconds",
    "rocketmq_consumer_group_create_execution_time_milliseconds": "milliseconds",
    "rocketmq_rpc_latency_milliseconds": "milliseconds",
    "rocketmq_finish_message_latency_milliseconds": "milliseconds",
    "rocketmq_delay_message_latency_seconds": "seconds",
}
"""The metrics whose names RocketMQ's Prometheus endpoint lengthens, and by which unit."""
OWN_UNITS: Final = {
    "rocketmq_storage_flush_behind_bytes": "bytes",
    "rocketmq_storage_dispatch_behind_bytes": "bytes",
}
"""Those that have their unit in both names."""
BARE: Final = {
    f"rocketmq_{name}": f"rocketmq_{name}_{unit}"
    for name, unit in (
        ("consumer_lag_latency", "milliseconds"),
        ("storage_size", "bytes"),
        ("storage_message_reserve_time", "milliseconds"),
        ("timer_dequeue_latency", "milliseconds"),
    )
}
"""Names that `/metrics` has beside those with a unit, which stand behind them."""
TOTAL: Final = "_total"
"""Ends the name of what only grows."""

SWITCHES: Final = {
    "stats": ("broker_permission", "topic_number", "consumer_group_number", "processor_watermark"),
    "request": (
        "messages_", "throughput_", "message_size", "topic_create_", "consumer_group_create_",
    ),
    "connection": ("producer_connections", "consumer_connections"),
    "lag_and_dlq": (
        "consumer_lag_", "consumer_inflight_", "consumer_queueing_", "consumer_ready_",
        "send_to_dlq_",
    ),
    "transaction": (
        "half_messages", "commit_messages_", "rollback_messages_", "finish_message_",
    ),
    "remoting": ("rpc_latency",),
    "message_store": ("storage_", "timer_", "timing_messages", "delay_message_"),
}  # fmt: skip
"""How the names of RocketMQ's metrics go on that each of its `enable...Metrics` is about."""


class Instrument(NamedTuple):
    """A metric as OpenTelemetry has it."""

    name: str
    unit: str


def instrument(name: str) -> Instrument:
    """Return what a metric is called where a collector appends its unit by itself."""
    if (unit := UNITS.get(name)) is not None:
        return Instrument(name.removesuffix(f"_{unit}"), unit)
    return Instrument(name, OWN_UNITS.get(name, ""))


def switched_off(name: str, families: frozenset[str]) -> bool:
    """Whether a metric belongs to one of the families, by the names of `SWITCHES`."""
    rest = name.removeprefix("rocketmq_")
    return rest != name and any(rest.startswith(SWITCHES[family]) for family in families)


HELP: Final = {
    "rocketmq_broker_permission": "Broker permission",
    "rocketmq_topic_number": "Active topic number",
    "rocketmq_consumer_group_number": "Active subscription group number",
    "rocketmq_processor_watermark": "Requests that wait for their answer, by who serves them",
    "rocketmq_messages_in_total": "Total number of incoming messages",
    "rocketmq_throughput_in_total": "Total traffic of incoming messages, in bytes",
    "rocketmq_messages_out_total": "Total number of outgoing messages",
    "rocketmq_throughput_out_total": "Total traffic of outgoing messages, in bytes",
    "rocketmq_message_size": "Sizes of incoming messages as they are stored, in bytes",
    "rocketmq_send_to_dlq_messages_total": "Messages that went to the dead letters of their group",
    "rocketmq_producer_connections": "Producer connections",
    "rocketmq_consumer_connections": "Consumer connections",
    "rocketmq_consumer_lag_messages": "Messages that a group has not committed",
    "rocketmq_consumer_lag_latency_milliseconds": "Age of the oldest of them",
    "rocketmq_consumer_inflight_messages": "Messages that members have and did not commit",
    "rocketmq_consumer_ready_messages": "Messages that no member has pulled",
    "rocketmq_consumer_queueing_latency_milliseconds": "Age of the oldest of them",
    "rocketmq_storage_size_bytes": "What is used of the disk that the store is on",
    "rocketmq_storage_flush_behind_bytes": "Bytes of the log that are not flushed yet",
    "rocketmq_storage_dispatch_behind_bytes": "Bytes of the log that no queue has yet",
    "rocketmq_storage_message_reserve_time_milliseconds": "Age of the oldest message",
    "aerobee_log_bytes": "Size of the commit log",
    "aerobee_fsyncs_total": "Completed flushes to the disk, of the log and of the queues",
    "aerobee_log_space_lacks_total": "Times that a message found no prepared space in the log",
    "aerobee_disk_used_ratio": "How full the disk of the store is, from 0 to 1",
    "aerobee_log_files_removed_total": "Log files that went for age, size or want of disk",
    "aerobee_log_retention_seconds": "After how long a log file goes (fileReservedTime)",
    "aerobee_store_writable": "Whether messages are taken, 1 or 0",
    "aerobee_store_damaged_bytes": "Bytes of the log that cannot be read",
    "aerobee_store_damaged_spans": "Stretches of the log that cannot be read",
    "aerobee_store_passed_over_messages": "Messages without a record where their entries lead",
    "aerobee_store_lost_messages": "Messages of queues that lie in such stretches, as far as known",
    "aerobee_metric_rows_left_out": "Series beyond metricsOtelCardinalityLimit of a metric",
}
"""What is said of each metric of the store and of traffic; those of one room alone stand there."""
