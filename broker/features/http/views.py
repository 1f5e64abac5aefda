"""What each address of the HTTP side answers; nothing here changes anything.

/healthz             200 while the event loop turns
/readyz              200 when messages can be sent and found, else 503 and what is missing
/metrics             Prometheus text; alone on RocketMQ's port of metrics
/api/broker          name, addresses, uptime, store
/api/topics[/NAME]   topics; one with the offsets of its queues
/api/groups[/NAME]   groups; one with its members and how far it is behind
"""

import asyncio
from socket import socket
from typing import Any, Final

import msgspec
from aiohttp import web

from aerobee.broker.features.http import exposition, overview
from aerobee.broker.features.http.degraded import degraded
from aerobee.broker.start.context import Context

CONTEXT: Final = web.AppKey("context", Context)
SCRAPE: Final = web.AppKey("scrape", asyncio.Lock)
"""Of ten thousand topics each takes a second, and memory while it is made."""
BARE: Final = web.AppKey("bare", bool)
"""Whether metrics have the names, too, that they had without their units."""
JSON: Final = "application/json"
IDLE_S = 60.0
"""So long a connection may ask for nothing; what scrapes more often keeps its own."""
PAGE_DEFAULT: Final = 1000
PAGE_MAX: Final = 10_000


async def make_runner(
    context: Context, request_bytes_max: int, stop_timeout_s: float
) -> web.AppRunner:
    """Return what answers, not listening yet."""
    app = _application(context, request_bytes_max, bare=True)
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/api/broker", broker)
    app.router.add_get("/api/topics", topics)
    app.router.add_get("/api/topics/{name}", topic)
    app.router.add_get("/api/groups", groups)
    app.router.add_get("/api/groups/{name}", group)
    return await _runner(app, stop_timeout_s)


async def make_metrics_runner(
    context: Context, request_bytes_max: int, stop_timeout_s: float
) -> web.AppRunner:
    """Return what answers for the metrics alone, by RocketMQ's names."""
    app = _application(context, request_bytes_max, bare=False)
    return await _runner(app, stop_timeout_s)


def _application(context: Context, request_bytes_max: int, *, bare: bool) -> web.Application:
    app = web.Application(client_max_size=request_bytes_max)
    app[CONTEXT], app[SCRAPE], app[BARE] = context, asyncio.Lock(), bare
    app.router.add_get("/metrics", metrics)
    return app


async def _runner(app: web.Application, stop_timeout_s: float) -> web.AppRunner:
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=stop_timeout_s,
        keepalive_timeout=IDLE_S,  # else an hour, before the first request as well
    )
    await runner.setup()
    return runner


async def serve(runner: web.AppRunner, listening: socket, waiting_max: int) -> None:
    """Serve those who come to a socket, and who wait there already."""
    await web.SockSite(runner, listening, backlog=waiting_max).start()


async def healthz(request: web.Request) -> web.Response:
    """Say that the process is alive."""
    return web.Response(text="ok\n")


async def readyz(request: web.Request) -> web.Response:
    """Say whether the broker is of use, and if not, why."""
    missing = overview.missing(request.app[CONTEXT])
    if missing:
        return web.Response(status=503, text="".join(f"{reason}\n" for reason in missing))
    wrong = degraded(request.app[CONTEXT])
    return web.Response(text="".join(f"{line}\n" for line in ("ready", *wrong)))


async def metrics(request: web.Request) -> web.Response:
    """Return every metric as Prometheus text; one scrape at a time, none for who has gone."""
    async with request.app[SCRAPE]:
        if request.transport is None:
            return web.Response()
        body = await exposition.text(request.app[CONTEXT], bare=request.app[BARE])
    return web.Response(body=body, headers={"Content-Type": exposition.CONTENT_TYPE})


async def broker(request: web.Request) -> web.Response:
    """Describe the broker itself."""
    return _json(overview.broker(request.app[CONTEXT]))


async def topics(request: web.Request) -> web.Response:
    """List the topics, a page at a time."""
    context = request.app[CONTEXT]
    return _json(overview.topics(context, *_page(request)), total=len(context.tables.topics))


async def topic(request: web.Request) -> web.Response:
    """Describe one topic and its queues."""
    return _json(overview.topic(request.app[CONTEXT], request.match_info["name"]))


async def groups(request: web.Request) -> web.Response:
    """List the groups, a page at a time."""
    context = request.app[CONTEXT]
    return _json(overview.groups(context, *_page(request)), total=len(context.tables.groups))


async def group(request: web.Request) -> web.Response:
    """Describe one group, its members and its lag."""
    return _json(overview.group(request.app[CONTEXT], request.match_info["name"]))


def _page(request: web.Request) -> tuple[int, int]:
    """Read `start` and `limit`; a broker may have 200,000 topics, and they are written at once."""
    numbers = []
    for name, default, least, most in (
        ("start", 0, 0, 1 << 31),
        ("limit", PAGE_DEFAULT, 1, PAGE_MAX),
    ):
        text = request.query.get(name, str(default))
        if not (text.isdecimal() and len(text) < 11 and least <= int(text) <= most):
            raise web.HTTPBadRequest(
                text=f'{{"error":"{name} must be a number from {least} to {most}"}}\n',
                content_type=JSON,
            )
        numbers.append(int(text))
    return numbers[0], numbers[1]


def _json(value: Any, *, total: int | None = None) -> web.Response:
    if value is None:
        return web.Response(status=404, body=b'{"error":"not found"}\n', content_type=JSON)
    headers = {} if total is None else {"X-Total-Count": str(total)}
    body = msgspec.json.encode(value) + b"\n"
    return web.Response(body=body, content_type=JSON, headers=headers)
