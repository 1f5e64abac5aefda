"""One module per family of requests; `FAMILIES` is all of them."""

from aerobee.namesrv.context import Context
from aerobee.namesrv.processors import kv, registration, route, settings, topics
from aerobee.remoting.net.routes import Routes

FAMILIES: tuple[Routes[Context], ...] = (
    registration.routes,
    route.routes,
    topics.routes,
    kv.routes,
    settings.routes,
)
