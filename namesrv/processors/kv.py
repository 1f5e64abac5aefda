"""The key-value table: 100, 101, 102 and 219 (DefaultRequestProcessor.java)."""

from aerobee.namesrv.context import NamesrvContext
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.kv import (
    DeleteKVConfigRequest,
    GetKVConfigReply,
    GetKVConfigRequest,
    KVListRequest,
    PutKVConfigRequest,
)
from aerobee.remoting.net.routes import Reply, Request, Routes

routes: Routes[NamesrvContext] = Routes("kv")


@routes.on(RequestCode.PUT_KV_CONFIG, PutKVConfigRequest)
async def put_kv(ctx: NamesrvContext, request: Request[PutKVConfigRequest]) -> Reply:
    """Set one value; answered when it is on disk."""
    await ctx.kv.put(request.header.namespace, request.header.key, request.header.value)
    return Reply()


@routes.on(RequestCode.GET_KV_CONFIG, GetKVConfigRequest)
def get_kv(ctx: NamesrvContext, request: Request[GetKVConfigRequest]) -> GetKVConfigReply:
    """Read one value."""
    namespace, key = request.header.namespace, request.header.key
    value = ctx.kv.get(namespace, key)
    if value is None:
        raise RequestError(
            ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace} Key: {key}"
        )
    return GetKVConfigReply(value=value)


@routes.on(RequestCode.DELETE_KV_CONFIG, DeleteKVConfigRequest)
async def delete_kv(ctx: NamesrvContext, request: Request[DeleteKVConfigRequest]) -> Reply:
    """Forget one value; answered when that is on disk."""
    await ctx.kv.delete(request.header.namespace, request.header.key)
    return Reply()


@routes.on(RequestCode.GET_KVLIST_BY_NAMESPACE, KVListRequest)
def list_kv(ctx: NamesrvContext, request: Request[KVListRequest]) -> Reply:
    """Read a whole namespace."""
    namespace = request.header.namespace
    body = ctx.kv.namespace(namespace)
    if body is None:
        raise RequestError(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
    return Reply(body=body)
