"""The metrics of the messaging conventions."""

from typing import Any, Final

from opentelemetry.metrics import Meter

from aerobee.client.otel import attributes as names

_KEPT: Final = (
    names.SYSTEM,
    names.OPERATION_NAME,
    names.DESTINATION,
    names.CONSUMER_GROUP,
    names.SERVER_ADDRESS,
    names.SERVER_PORT,
)
"""What tells one series from another: nothing of single messages, or there would be too many."""
_BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


class Measures:
    """Durations in seconds and counts, by operation, topic, group and broker."""

    def __init__(self, meter: Meter) -> None:
        self._operations = meter.create_histogram(
            names.OPERATION_DURATION,
            unit="s",
            description="Duration of operations of a producer or consumer",
            explicit_bucket_boundaries_advisory=_BUCKETS_S,
        )
        self._processing = meter.create_histogram(
            names.PROCESS_DURATION,
            unit="s",
            description="Duration of processing",
            explicit_bucket_boundaries_advisory=_BUCKETS_S,
        )
        self._sent = meter.create_counter(
            names.SENT_MESSAGES, unit="{message}", description="Messages that were sent"
        )
        self._consumed = meter.create_counter(
            names.CONSUMED_MESSAGES, unit="{message}", description="Messages that were delivered"
        )

    def sent(self, span: dict[str, Any], count: int, duration_s: float, error: str | None) -> None:
        """Count an attempt to send `count` messages; `span` has the attributes of its span."""
        labels = _labels(span, error)
        self._operations.record(duration_s, labels)
        self._sent.add(count, labels)

    def consumed(
        self, span: dict[str, Any], count: int, duration_s: float, error: str | None
    ) -> None:
        """Count messages that were handled or polled."""
        labels = _labels(span, error)
        if span[names.OPERATION_NAME] == "process":
            self._processing.record(duration_s, labels)
        else:
            self._operations.record(duration_s, labels)
        self._consumed.add(count, labels)

    def settled(self, span: dict[str, Any], duration_s: float, error: str | None) -> None:
        """Record what settled messages."""
        self._operations.record(duration_s, _labels(span, error))


def _labels(span: dict[str, Any], error: str | None) -> dict[str, Any]:
    labels: dict[str, Any] = {name: span[name] for name in _KEPT if name in span}
    if error is not None:
        labels[names.ERROR_TYPE] = error
    return labels
