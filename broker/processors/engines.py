"""What concerns RocketMQ's other engines: 354, 355, 5001 and 200056 (AdminBrokerProcessor).

Tables, queues and timers are files here. So is what pop consumption keeps, where there is any.
"""

from typing import Final

from aerobee.broker.start.context import Context
from aerobee.remoting.bodies import QueueCheck, encode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.admin import ExportTablesRequest
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes

routes: Routes[Context] = Routes("engines")

TABLES: Final = ("topics", "subscriptionGroups", "consumerOffsets")
ENGINE: Final = "E_T"  # MessageConst.TIMER_ENGINE_TYPE
ROCKSDB_TIMERS: Final = "R"
FILE_TIMERS: Final = "F"


@routes.on(RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS)
def check_queues(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Say that there is nothing to compare: queues are files alone."""
    check = QueueCheck(check_result="It is not CombineConsumeQueueStore, no need check")
    return Reply(body=encode_body(check))


@routes.on(RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, ExportTablesRequest)
async def export_tables(ctx: Context, request: Request[ExportTablesRequest]) -> Outcome:
    """Write tables as JSON, which they always are: those that are asked for are on the disk now."""
    tables, names = ctx.tables, request.header.config_type.split(";")
    wanted = [name.strip().lower() for name in names if name]
    flushes = (tables.topics.file.flush, tables.groups.file.save, tables.offsets.flush)
    by_name = {name.lower(): flush for name, flush in zip(TABLES, flushes, strict=True)}
    for name in wanted:
        if name not in by_name:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"Unknown config type: {name}")
    for name in dict.fromkeys(wanted):
        await by_name[name]()
    return Reply(remark="export done.")


@routes.on(RequestCode.SWITCH_TIMER_ENGINE)
def switch_timers(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Keep to the timer wheel in files; there is no other engine to switch to."""
    if not ctx.settings.timer_wheel_enable:
        raise _refused("broker timerWheelEnable is false")
    engine = request.command.ext.get(ENGINE)
    if engine == ROCKSDB_TIMERS:
        raise _refused("timerRocksDBEnable must be configured true when broker start")
    if engine != FILE_TIMERS:
        raise _refused("param error")
    return Reply(remark="switch timer engine success")


@routes.on(RequestCode.POP_ROLLBACK)
def roll_pop_back(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Move what pop consumption has in RocksDB into files; there is none."""
    return Reply()


def _refused(remark: str) -> RequestError:
    return RequestError(ResponseCode.INVALID_PARAMETER, remark)
