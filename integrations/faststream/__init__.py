"""A FastStream broker: handlers with decorators, models and dependencies, on Aerobee."""

from aerobee.remoting.extras import need

try:
    from aerobee.integrations.faststream.broker import AerobeeBroker
    from aerobee.integrations.faststream.message import AerobeeBatchMessage, AerobeeMessage
    from aerobee.integrations.faststream.publisher import AerobeePublisher
    from aerobee.integrations.faststream.registrator import (
        AerobeeRoute,
        AerobeeRoutePublisher,
        AerobeeRouter,
    )
    from aerobee.integrations.faststream.response import AerobeeResponse, SendOptions
    from aerobee.integrations.faststream.subscriber import AerobeeSubscriber
    from aerobee.integrations.faststream.testing import TestAerobeeBroker
except ModuleNotFoundError:
    need("faststream", "aerobee.integrations.faststream")
    raise

__all__ = [
    "AerobeeBatchMessage",
    "AerobeeBroker",
    "AerobeeMessage",
    "AerobeePublisher",
    "AerobeeResponse",
    "AerobeeRoute",
    "AerobeeRoutePublisher",
    "AerobeeRouter",
    "AerobeeSubscriber",
    "SendOptions",
    "TestAerobeeBroker",
]
