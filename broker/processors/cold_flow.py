"""Reading old data: 2001 to 2004 (AdminBrokerProcessor)."""

import re
from typing import Final

import msgspec

from aerobee.broker.rules.names import check_group
from aerobee.broker.start.context import Context
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.config.java_properties import parse_java_properties
from aerobee.remoting.errors import RequestError
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes

routes: Routes[Context] = Routes("cold flow")

INT64_MAX: Final = 2**63 - 1
MODE: Final = "READ_AHEAD_MODE"  # FIleReadaheadMode
NORMAL, RANDOM = 0, 1  # madvise
NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


@routes.on(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG)
def update_limits(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Note how much old data groups may read; the body is a properties file of bytes by group.

    RocketMQ passes over a number that is none, and says that all went well.
    """
    try:
        texts = parse_java_properties(bytes(request.command.body).decode())
    except ValueError:
        raise RequestError(ResponseCode.SYSTEM_ERROR, "string2Properties error") from None
    limits = {}
    for group, text in texts.items():
        check_group(group)
        if not NUMBER.fullmatch(text) or abs(limit := int(text)) > INT64_MAX:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER, f"the limit of {group} is no number of bytes"
            )
        limits[group] = limit
    ctx.cold.flow.update(limits)
    return Reply()


@routes.on(RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG)
def remove_limit(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Forget the limit of the group that the body names."""
    ctx.cold.flow.remove(bytes(request.command.body).decode(errors="replace"))
    return Reply()


@routes.on(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)
def show_limits(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Return the limits, and what groups have read of old data, as JSON."""
    return Reply(body=msgspec.json.encode(ctx.cold.flow.shown()))


@routes.on(RequestCode.SET_COMMITLOG_READ_MODE)
def set_read_ahead(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Have the kernel read ahead in the log as it does anyway; the other mode is refused.

    RocketMQ can take that from the kernel for the files that it has mapped. Old data is not read
    through maps here.
    """
    text = request.command.ext.get(MODE, "")
    if not NUMBER.fullmatch(text):
        raise RequestError(ResponseCode.SYSTEM_ERROR, "set commitlog readahead mode failed")
    mode = int(text)
    if mode not in (NORMAL, RANDOM):
        raise RequestError(
            ResponseCode.INVALID_PARAMETER, "set commitlog readahead mode param value error"
        )
    if mode == RANDOM:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            "set commitlog readahead mode failed: old data is read by the kernel's own rules here,"
            " which is mode 0",
        )
    return Reply(remark=f"set commitlog readahead mode success, mode: {mode}")
