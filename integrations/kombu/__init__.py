"""Celery 5 on Aerobee and RocketMQ: a transport of kombu, its library of messaging.

    import aerobee.integrations.kombu

    app = Celery("shop", broker="aerobee://127.0.0.1:9876")

Importing it makes the scheme `aerobee://` known. Where nothing can import it first, the setting
`broker_transport = "aerobee.integrations.kombu:Transport"` names the class instead.
"""

from typing import Final

from kombu.transport import TRANSPORT_ALIASES

from aerobee.integrations.kombu.transport import Transport

__all__ = ["Transport"]

SCHEME: Final = "aerobee"

TRANSPORT_ALIASES.setdefault(SCHEME, f"{__name__}:Transport")
