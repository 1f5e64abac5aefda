"""Spans and metrics of clients by OpenTelemetry, where the extra `aerobee[otel]` is installed."""

from typing import TYPE_CHECKING, Any

from aerobee.remoting.extras import need

try:
    from aerobee.client.otel.hook import OpenTelemetryHook
except ModuleNotFoundError:
    need("otel", "aerobee.client.otel")
    raise

if TYPE_CHECKING:
    from aerobee.client.otel.instrumentor import AerobeeInstrumentor

__all__ = ["AerobeeInstrumentor", "OpenTelemetryHook"]


if not TYPE_CHECKING:  # where it would make a name of every misspelling

    def __getattr__(name: str) -> Any:
        """Load the instrumentor when it is wanted: what it is derived from takes as long again."""
        if name != "AerobeeInstrumentor":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from aerobee.client.otel.instrumentor import AerobeeInstrumentor

        return AerobeeInstrumentor
