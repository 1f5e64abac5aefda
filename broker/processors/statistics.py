"""What came and went in the last minute, hour and day: 315 (AdminBrokerProcessor).

`avgpt` is of a message: RocketMQ divides by requests, which may bring or take several. What a
topic, a group had before the start is not counted; samples are taken every ten seconds.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from aerobee.broker.health.history import Grown, GrowthHistory
from aerobee.broker.health.metrics import GET, PUT
from aerobee.broker.start.context import Context
from aerobee.remoting.bodies import BrokerStats, StatsWindow, encode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.admin import ViewStatsRequest
from aerobee.remoting.net.routes import Outcome, Reply, Request, Routes

routes: Routes[Context] = Routes("statistics")

Key = TypeVar("Key")
Shown = Callable[[Grown], StatsWindow]


def _messages(grown: Grown) -> StatsWindow:
    return StatsWindow(
        sum=grown.messages, tps=grown.per_second, avgpt=1.0 if grown.messages else 0.0
    )


def _bytes(grown: Grown) -> StatsWindow:
    return StatsWindow(
        sum=grown.size_bytes,
        tps=grown.size_bytes / grown.seconds if grown.seconds > 0 else 0.0,
        avgpt=grown.size_bytes / grown.messages if grown.messages else 0.0,
    )


def _totals(grown: Grown) -> StatsWindow:
    return StatsWindow(sum=grown.messages, tps=grown.per_second)  # RocketMQ has no average of them


BY_TOPIC: Final[dict[str, Shown]] = {"TOPIC_PUT_NUMS": _messages, "TOPIC_PUT_SIZE": _bytes}
BY_GROUP: Final[dict[str, Shown]] = {"GROUP_GET_NUMS": _messages, "GROUP_GET_SIZE": _bytes}
SENT_BACK: Final = "SNDBCK_PUT_NUMS"
OF_BROKER: Final = {"BROKER_PUT_NUMS": PUT, "BROKER_GET_NUMS": GET}


@routes.on(RequestCode.VIEW_BROKER_STATS_DATA, ViewStatsRequest)
def view_statistics(ctx: Context, request: Request[ViewStatsRequest]) -> Outcome:
    """Return one statistic, by its name and by what it is of: a topic, topic@group, the cluster."""
    name, key, metrics = request.header.stats_name, request.header.stats_key, ctx.health.metrics
    topic, _, group = key.rpartition("@")
    found = None
    if name in BY_TOPIC:
        found = _of(metrics.sent_to, key, BY_TOPIC[name])
    elif name in BY_GROUP:
        found = _of(metrics.pulled_by, (topic, group), BY_GROUP[name])
    elif name == SENT_BACK:
        found = _of(metrics.sent_back_by, (topic, group), _messages)
    elif name in OF_BROKER and key == ctx.settings.broker_cluster_name:
        found = _of(metrics.in_all, OF_BROKER[name], _totals)
    if found is None:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
    return Reply(body=encode_body(found))


def _of(history: GrowthHistory[Key], key: Key, shown: Shown) -> BrokerStats | None:
    if key not in history:
        return None
    return BrokerStats(
        stats_minute=shown(history.minute(key)),
        stats_hour=shown(history.hour(key)),
        stats_day=shown(history.day(key)),
    )
