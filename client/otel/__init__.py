"""Spans and metrics of clients by OpenTelemetry, where the extra `aerobee[otel]` is installed."""
