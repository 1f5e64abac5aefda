"""Headers of the nameserver's key-value table: 100, 101, 102 and 219."""

from aerobee.remoting.headers.typed import Header


class PutKVConfigRequest(Header, frozen=True, kw_only=True):
    """PUT_KV_CONFIG: set one value."""

    namespace: str
    key: str
    value: str


class GetKVConfigRequest(Header, frozen=True, kw_only=True):
    """GET_KV_CONFIG: read one value."""

    namespace: str
    key: str


class GetKVConfigReply(Header, frozen=True, kw_only=True):
    """The value; none travels with code 22."""

    value: str | None = None


class DeleteKVConfigRequest(Header, frozen=True, kw_only=True):
    """DELETE_KV_CONFIG: forget one value."""

    namespace: str
    key: str


class KVListRequest(Header, frozen=True, kw_only=True):
    """GET_KVLIST_BY_NAMESPACE: read a whole namespace, the reply's body is a KVTable."""

    namespace: str
