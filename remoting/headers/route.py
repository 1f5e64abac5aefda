"""The header of GET_ROUTEINFO_BY_TOPIC (105)."""

from aerobee.remoting.headers.typed import Header


class RouteInfoRequest(Header, frozen=True, kw_only=True):
    """Which brokers have a topic? The reply is a TopicRouteData body (GetRouteInfoRequestHeader).

    `accept_standard_json_only` asks for integer keys in quotes, whatever the request's version.
    """

    topic: str
    accept_standard_json_only: bool | None = None
