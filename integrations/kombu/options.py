"""What `broker_transport_options` says to this transport."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aerobee.client.errors import InvalidSetting
from aerobee.remoting.net.tls import TlsClientSettings

QUEUES_MAX: Final = 1_024  # of a topic, on each broker
SECONDS_MAX: Final = 2**31 // 1000  # 24 days


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportOptions:
    """Settings of one connection; durations are seconds, as Celery's are.

    `namesrv` takes the place of the URL's host and port where there are several nameservers:
    "host:port;host:port". `topic_prefix` comes before the names of queues, exchanges and groups.
    `queues` is the number of queues, on each broker, of a topic that is made: as many workers and
    no more have work at a time. `visibility_timeout` gives a message to another worker that was
    not acknowledged for so long, though its worker lives; None never does. `handover_timeout` is
    how long a queue that goes to another worker waits for what is not acknowledged. `timers` lets
    the broker hold what has an `eta`, of up to `timer_max_delay` (the broker's timerMaxDelaySec)
    at a time; without it workers hold it.
    """

    namesrv: str = ""
    topic_prefix: str = ""
    queues: int = 8
    visibility_timeout: float | None = None
    handover_timeout: float = 30.0
    timers: bool = True
    timer_max_delay: float = 259_200.0

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> "TransportOptions":
        """Take what is ours of the transport's options, and check it; raises InvalidSetting.

        What is not ours stays: kombu and Celery have options of their own there.
        """
        values = {name: given[name] for name in CHECKS if name in given}
        for name, value in values.items():
            wanted, fits = CHECKS[name]
            if not fits(value):
                raise InvalidSetting(f"{name}={value!r}: it has to be {wanted}")
        return cls(**values)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= SECONDS_MAX  # neither nan nor inf is


CHECKS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "namesrv": ("host:port;host:port", lambda value: isinstance(value, str)),
    "topic_prefix": ("a text", lambda value: isinstance(value, str)),
    "queues": (
        f"1 to {QUEUES_MAX}",
        lambda value: type(value) is int and 1 <= value <= QUEUES_MAX,
    ),
    "visibility_timeout": (
        "None, or seconds above 0",
        lambda value: value is None or (_is_number(value) and value > 0),
    ),
    "handover_timeout": ("seconds, or 0", lambda value: _is_number(value) and value >= 0),
    "timers": ("True or False", lambda value: isinstance(value, bool)),
    "timer_max_delay": ("seconds above 0", lambda value: _is_number(value) and value > 0),
}


def tls_settings(given: object) -> TlsClientSettings | None:
    """Return what `broker_use_ssl` asks for: True, or a dict with the words of Python's ssl.

    `ca_certs`, `certfile`, `keyfile` and `cert_reqs` (ssl.CERT_NONE does not verify the server)
    are known; raises InvalidSetting for any other.
    """
    if not given:
        return None
    if given is True:
        return TlsClientSettings()
    if not isinstance(given, Mapping):
        raise InvalidSetting(f"broker_use_ssl={given!r}: it has to be True or a dict")
    known = {"ca_certs", "certfile", "keyfile", "cert_reqs"}
    if unknown := sorted(set(map(str, given)) - known):
        raise InvalidSetting(f"broker_use_ssl: {', '.join(unknown)} is not known")
    trust = given.get("ca_certs") or ""
    return TlsClientSettings(
        cert_path=given.get("certfile") or "",
        key_path=given.get("keyfile") or "",
        verify_server=bool(given["cert_reqs"]) if "cert_reqs" in given else bool(trust),
        trust_cert_path=trust,
    )
