"""The settings of metrics: RocketMQ's, with its defaults."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, field_validator

from aerobee.broker.settings.values import Milliseconds
from aerobee.remoting.config.settings import AtStart, Guarded, ServerSettings

_KINDS: Final = {"0": "DISABLE", "1": "OTLP_GRPC", "2": "PROM"}
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def _kind(value: Any) -> Any:
    return _KINDS.get(str(value), str(value).upper())


def _pairs(value: str) -> dict[str, str]:
    """Read `name:value,name:value`; the value may have colons."""
    pairs = {}
    for part in filter(None, map(str.strip, value.split(","))):
        name, colon, text = part.partition(":")
        if not colon or not name.strip():
            raise ValueError("allowed: name:value, several joined by commas")
        pairs[name.strip()] = text.strip()
    return pairs


class MetricsKeys(ServerSettings):
    """Who gets the metrics, beside those who ask `httpPort` for them, and what they say."""

    # PROM: on a port of their own, too; OTLP_GRPC: they are sent; LOG is not served
    metrics_exporter_type: AtStart[
        Guarded[Annotated[Literal["DISABLE", "OTLP_GRPC", "PROM"], BeforeValidator(_kind)]]
    ] = "DISABLE"
    metrics_prom_exporter_host: AtStart[Guarded[str]] = ""  # "" is brokerIP1
    metrics_prom_exporter_port: AtStart[Guarded[int]] = Field(default=5557, ge=0, le=65535)
    # "host:port" by TLS; without it where http:// is before that
    metrics_grpc_exporter_target: AtStart[Guarded[str]] = ""
    metrics_grpc_exporter_header: AtStart[Guarded[str]] = ""  # "name:value,..."; never shown
    metric_grpc_exporter_interval_in_mills: AtStart[Milliseconds] = 60_000
    metric_grpc_exporter_time_out_in_mills: AtStart[Milliseconds] = 3_000
    metrics_export_batch_max_data_points: AtStart[int] = Field(default=1000, ge=1, le=100_000)
    metrics_in_delta: AtStart[bool] = False
    metrics_label: str = ""  # "name:value,...", of every series
    metrics_otel_cardinality_limit: int = Field(default=50_000, ge=1, le=1_000_000)
    enable_stats_metrics: bool = True
    enable_request_metrics: bool = True
    enable_connection_metrics: bool = True
    enable_lag_and_dlq_metrics: bool = True
    enable_transaction_metrics: bool = True
    enable_message_store_metrics: bool = True
    enable_remoting_metrics: AtStart[bool] = True

    @field_validator("metrics_label")
    @classmethod
    def _labels(cls, value: str) -> str:
        for name, text in _pairs(value).items():
            if not _LABEL.fullmatch(name) or name.startswith("__") or not text.isprintable():
                raise ValueError("allowed: name:value, names of a-z A-Z 0-9 _, joined by commas")
        return value

    @field_validator("metrics_grpc_exporter_header")
    @classmethod
    def _headers(cls, value: str) -> str:
        for name, text in _pairs(value).items():
            if not f"{name}{text}".isprintable() or not f"{name}{text}".isascii():
                raise ValueError("allowed: name:value, several joined by commas")
        return value

    @field_validator("metrics_grpc_exporter_target")
    @classmethod
    def _target(cls, value: str) -> str:
        host, _, port = value.strip().rpartition("://")[2].rstrip("/").rpartition(":")
        if value.strip() and not (host and port.isdecimal() and 0 < int(port[:6]) < 65536):
            raise ValueError("allowed: host:port, which may have http:// or https:// before it")
        return value.strip()

    @property
    def metrics_labels(self) -> dict[str, str]:
        """The labels of `metricsLabel`."""
        return _pairs(self.metrics_label)

    @property
    def metrics_headers(self) -> dict[str, str]:
        """What the collector is told with each request, in lower case as gRPC has it."""
        pairs = _pairs(self.metrics_grpc_exporter_header)
        return {name.lower(): text for name, text in pairs.items()}

    @property
    def sends_metrics(self) -> bool:
        """Whether a collector gets them; RocketMQ sends none either without a target."""
        return self.metrics_exporter_type == "OTLP_GRPC" and bool(self.metrics_grpc_exporter_target)

    @property
    def has_metrics_port(self) -> bool:
        """Whether Prometheus finds them where RocketMQ has them."""
        return self.metrics_exporter_type == "PROM"

    @property
    def metrics_switched_off(self) -> frozenset[str]:
        """Name the families of metrics (`measures.names.SWITCHES`) that are not told."""
        families = {
            "stats": self.enable_stats_metrics,
            "request": self.enable_request_metrics,
            "connection": self.enable_connection_metrics,
            "lag_and_dlq": self.enable_lag_and_dlq_metrics,
            "transaction": self.enable_transaction_metrics,
            "message_store": self.enable_message_store_metrics,
            "remoting": self.enable_remoting_metrics,
        }
        return frozenset(family for family, wanted in families.items() if not wanted)
