"""One module per family of requests; `FAMILIES` is all of them."""

from aerobee.namesrv.context import NamesrvContext
from aerobee.namesrv.processors import kv, registration, route, settings, topics
from aerobee.remoting.net.routes import Routes

FAMILIES: tuple[Routes[NamesrvContext], ...] = (
    registration.routes,
    route.routes,
    topics.routes,
    kv.routes,
    settings.routes,
)
