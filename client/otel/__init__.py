"""Spans and metrics of clients by OpenTelemetry, where the extra `aerobee[otel]` is installed."""

from aerobee.remoting.extras import need

try:
    from aerobee.client.otel.hook import OpenTelemetryHook
except ModuleNotFoundError:
    need("otel", "aerobee.client.otel")
    raise

__all__ = ["OpenTelemetryHook"]
