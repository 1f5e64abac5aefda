"""The settings a nameserver runs with: 318 and 319 (DefaultRequestProcessor.java)."""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from aerobee.namesrv.context import NamesrvContext
from aerobee.namesrv.settings import CHANGEABLE
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.config.java_properties import format_java_properties, parse_java_properties
from aerobee.remoting.config.secret_keys import plain_key, without_secrets
from aerobee.remoting.config.settings import SettingsError
from aerobee.remoting.errors import REMARK_CHARS_MAX, RequestError
from aerobee.remoting.net.admin_networks import is_trusted
from aerobee.remoting.net.routes import NoHeader, Reply, Request, Routes

log = logging.getLogger(__name__)

routes: Routes[NamesrvContext] = Routes("settings")

BLACK_LIST: Final = ("configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome")


@routes.on(RequestCode.GET_NAMESRV_CONFIG)
def get_settings(ctx: NamesrvContext, request: Request[NoHeader]) -> Reply:
    """List all settings as properties text; whoever can connect may ask, so no passwords."""
    shown = without_secrets(dict(ctx.settings.items()))
    return Reply(body=format_java_properties(shown).encode())


@routes.on(RequestCode.UPDATE_NAMESRV_CONFIG)
def update_settings(ctx: NamesrvContext, request: Request[NoHeader]) -> Reply:
    """Change switches until the nameserver stops; the body holds them as a properties file.

    Only those of a list, and only for who has signed and may, or where nobody is asked that, for
    peers on this machine or in `adminAllowedNetworks`: CVE-2023-37582 was this request, with a
    path. One key that may not be changed refuses all.
    """
    try:
        properties = parse_java_properties(bytes(request.command.body).decode())
    except ValueError as error:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"string2Properties error: {error}") from None
    keys = {plain_key(key): key for key in ctx.settings.keys().values()}
    _check_allowed(properties.keys(), keys)
    remote = request.connection.remote
    has_right = ctx.guard is not None and ctx.guard.has_right(request.connection, request.command)
    if not (has_right or is_trusted(request.connection, ctx.settings.admin_allowed_networks)):
        raise RequestError(
            ResponseCode.NO_PERMISSION,
            "settings are changed from the nameserver's own machine or from a network that"
            f" adminAllowedNetworks names, and {remote} is neither, or by a signed request of who"
            " may (authenticationEnabled and authorizationEnabled)",
        )
    try:
        ctx.settings = ctx.settings.changed(properties)
    except SettingsError as error:
        raise RequestError(ResponseCode.INVALID_PARAMETER, str(error)) from None
    changed = sorted(keys[plain] for key in properties if (plain := plain_key(key)) in keys)
    unknown = sorted(key for key in properties if plain_key(key) not in keys)
    log.info("settings_changed keys=%s by=%s", changed, remote)
    return Reply(remark=_told(changed, unknown)[:REMARK_CHARS_MAX])


def _check_allowed(asked: Iterable[str], keys: Mapping[str, str]) -> None:
    """Refuse what nobody may change from afar, and what only a start reads."""
    forbidden = {plain_key(key) for key in BLACK_LIST}
    plain = [plain_key(key) for key in asked]
    if not forbidden.isdisjoint(plain):
        raise RequestError(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    fixed = sorted(keys[key] for key in plain if key in keys and keys[key] not in CHANGEABLE)
    if fixed:
        raise RequestError(
            ResponseCode.NO_PERMISSION,
            f"{', '.join(fixed)} cannot be changed while the nameserver runs: set it in the file of"
            " -c and start it again",
        )


def _told(changed: list[str], unknown: list[str]) -> str:
    """Say what became of each key."""
    parts = (
        ("works now until the nameserver stops (its file is not changed)", changed),
        ("means nothing here", unknown),
    )
    return "; ".join(f"{what}: {', '.join(keys)}" for what, keys in parts if keys)
