"""Headers of broker administration: 25 and 26 (28 has none)."""

from aerobee.remoting.headers.typed import Header


class BrokerConfigReply(Header, frozen=True, kw_only=True):
    """GET_BROKER_CONFIG: the version of the configuration in the body (a DataVersion as JSON)."""

    version: str
