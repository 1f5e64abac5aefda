"""What a broker logs of its start and its stop, so that a log alone says what it was doing."""

import logging
import time

from aerobee.broker.compiled.choice import is_compiled
from aerobee.broker.start.context import Context
from aerobee.broker.start.waiting import what_waits
from aerobee.remoting.config.built import build
from aerobee.remoting.net.addresses import format_address
from aerobee.remoting.net.logs.server_log import asks_for_certificates, tell_openness
from aerobee.storage.layout import ABORT

log = logging.getLogger(__name__)


def serves(ctx: Context, port: int) -> None:
    """Say where the broker listens, whom it registers with, and what its store holds."""
    settings, statistics = ctx.settings, ctx.store.statistics()
    log.info(
        "broker_serves name=%s cluster=%s address=%s listens=%s nameservers=%s store=%s"
        " log_begin=%d log_end=%d proof=%r topics=%d groups=%d http=%s metrics=%s admin=%s",
        settings.broker_name,
        settings.broker_cluster_name,
        ctx.cluster.registration.address,
        format_address(settings.bind_address or "0.0.0.0", port),
        ";".join(settings.nameservers) or "none",
        settings.store_path_root_dir,
        statistics.log_begin,
        statistics.position,
        ctx.store.recovered.proof,
        len(ctx.tables.topics),
        len(ctx.tables.groups),
        _address(settings.http_host, ctx.front.http_port),
        _address(settings.metrics_host, ctx.front.metrics_port),
        _address(settings.admin_bind_address or settings.bind_address, ctx.front.ports.admin_port),
    )
    tell_openness(log, "broker", _unasked(ctx, port))
    if statistics.refusal is not None:
        log.warning("broker_takes_no_messages reason=%s", statistics.refusal)
    for warning in what_waits(ctx):
        log.warning("%s", warning)
    if not is_compiled():
        log.warning(
            "broker_not_compiled reason=%r: Python does all, two to three times as slowly",
            build().why or "the compiled code cannot be loaded",
        )
    if not settings.nameservers:
        log.warning("broker_without_nameserver: clients find it through namesrvAddr alone")


def _unasked(ctx: Context, port: int) -> list[tuple[str, int]]:
    """Return the ports that ask nobody who he is; HTTP never does."""
    settings, http_port = ctx.settings, ctx.front.http_port
    found = [] if http_port is None else [(settings.http_host, http_port)]
    if not (settings.authentication_enabled or asks_for_certificates(settings)):
        found.insert(0, (settings.bind_address, port))
        if (admin_port := ctx.front.ports.admin_port) is not None:
            found.insert(1, (settings.admin_bind_address or settings.bind_address, admin_port))
    return found


def _address(host: str, port: int | None) -> str:
    return "none" if port is None else format_address(host or "0.0.0.0", port)


def stops(ctx: Context) -> float:
    """Say that a stop has begun and what is to be done; return when, for `stopped`."""
    statistics = ctx.store.statistics()
    log.info("broker_stops unflushed_bytes=%d", statistics.unflushed_bytes)
    return time.monotonic()


def stopped(ctx: Context, began_s: float, unsaved: OSError | None) -> None:
    """Say how a stop has ended: what is on the disk, and whether a start will have to recover."""
    statistics, root = ctx.store.statistics(), ctx.settings.store_path_root_dir
    clean = not (root / ABORT).exists()
    log.log(
        logging.INFO if clean and unsaved is None else logging.ERROR,
        "broker_stopped seconds=%.2f log_end=%d flushed=%d clean=%s unsaved=%s",
        time.monotonic() - began_s,
        statistics.position,
        statistics.flushed_position,
        str(clean).lower(),
        unsaved or "nothing",
    )
