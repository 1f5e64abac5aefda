"""Which family of processors serves which request codes: an explicit list."""

from typing import Final

from aerobee.broker.processors import (
    assignment,
    cleaning,
    cold_flow,
    engines,
    groups,
    heartbeat,
    inspection,
    lite_info,
    locks,
    offsets,
    progress,
    query,
    recall,
    replication,
    resets,
    runtime_info,
    send,
    send_back,
    settings,
    statistics,
    topics,
)
from aerobee.broker.start.context import Context
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.net.routes import Routes

FAMILIES: Final[tuple[Routes[Context], ...]] = (
    send.routes,
    send_back.routes,
    offsets.routes,
    heartbeat.routes,
    locks.routes,
    assignment.routes,
    topics.routes,
    cleaning.routes,
    groups.routes,
    query.routes,
    resets.routes,
    settings.routes,
    runtime_info.routes,
    inspection.routes,
    progress.routes,
    recall.routes,
    statistics.routes,
    replication.routes,
    engines.routes,
    cold_flow.routes,
    lite_info.routes,
)

SERVED_BY_CONNECTION: Final = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})
"""Pulls may be held, so the connection hands them to `broker.pulls.server` itself."""
