"""OpenTelemetry's door to all clients of a process: `opentelemetry-instrument python app.py`."""

from collections.abc import Collection
from typing import Any

from opentelemetry.instrumentation import instrumentor as theirs
from opentelemetry.instrumentation.utils import is_instrumentation_enabled

from aerobee.client.hooks import (
    ConsumeContext,
    EndTransactionContext,
    SendContext,
    SettleContext,
    watch_everywhere,
    watch_no_more,
)
from aerobee.client.otel.hook import OpenTelemetryHook


class _Switched(OpenTelemetryHook):
    """The hook of all clients: it rests while it is switched off, or its caller is not to be seen.

    Where telemetry itself travels by our clients, its exporters say that they are not.
    """

    on = False

    def switch_on(self, **providers: Any) -> None:
        """Watch with these providers from now on; what has begun ends where it began."""
        self._use(providers.get("tracer_provider"), providers.get("meter_provider"))
        self.on = True

    def before(self, context: SendContext | ConsumeContext) -> None:
        """Begin a span, unless it rests; without one nothing ends either."""
        if self.on and is_instrumentation_enabled():
            super().before(context)

    def ended(self, context: EndTransactionContext) -> None:
        """Make the span of a transaction's end, unless it rests."""
        if self.on and is_instrumentation_enabled():
            super().ended(context)

    def settling(self, context: SettleContext) -> None:
        """Begin a span of what settles messages, unless it rests."""
        if self.on and is_instrumentation_enabled():
            super().settling(context)


class AerobeeInstrumentor(theirs.BaseInstrumentor):  # type: ignore[misc,name-defined]  # untyped
    """Traces every producer and consumer of the process, without a change of the program.

        AerobeeInstrumentor().instrument()  # or: opentelemetry-instrument python app.py

    It has the clients that start from then on call an `OpenTelemetryHook`; one that has such a hook
    itself is left alone. `instrument` takes `tracer_provider` and `meter_provider`, by default the
    global ones. After `uninstrument` nothing new is seen, and what runs ends its span; when it is
    instrumented again, clients that were started under it are seen again, too. Environment:
    OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=aerobee leaves it out, OTEL_SEMCONV_STABILITY_OPT_IN
    chooses the names.
    """

    _hook: _Switched | None = None

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return what it needs: nothing that is not there when it is."""
        return ()

    def _instrument(self, **kwargs: Any) -> None:
        if self._hook is None:
            self._hook = _Switched()
        self._hook.switch_on(**kwargs)
        watch_everywhere(self._hook, OpenTelemetryHook)

    def _uninstrument(self, **kwargs: Any) -> None:
        watch_no_more(OpenTelemetryHook)
        if self._hook is not None:
            self._hook.on = False
