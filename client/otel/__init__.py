"""Spans and metrics of clients by OpenTelemetry, where the extra `aerobee[otel]` is installed."""

from aerobee.client.otel.hook import OpenTelemetryHook

__all__ = ["OpenTelemetryHook"]
