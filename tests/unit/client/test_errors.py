"""One class catches all that leaves a client, and its errors travel between processes."""

import pickle

import pytest

import aerobee.client
from aerobee.client import (
    AerobeeError,
    BrokerRefused,
    ClientError,
    Message,
    Producer,
    RouteMissing,
    SendFailed,
    Unavailable,
)


def test_every_error_that_is_exported_is_a_client_error() -> None:
    """Those of connections and addresses, too."""
    exported = [getattr(aerobee.client, name) for name in aerobee.client.__all__]
    errors = [each for each in exported if isinstance(each, type) and issubclass(each, Exception)]
    assert len(errors) >= 18
    assert [each for each in errors if not issubclass(each, ClientError)] == []
    assert issubclass(ClientError, AerobeeError)


async def test_a_nameserver_that_is_down_is_a_client_error() -> None:
    """The commonest failure of all."""
    async with Producer(namesrv="127.0.0.1:1") as producer:
        with pytest.raises(ClientError, match="Connection refused") as caught:
            await producer.send(Message("t", b"x"), timeout_ms=50)
    assert isinstance(caught.value, Unavailable)


@pytest.mark.parametrize(
    "error",
    [
        SendFailed("t", ["a", "b"], 5, {"a": Unavailable("away")}),
        BrokerRefused(2, "busy", "a:1"),
        RouteMissing("t", "a:1", no_broker=True),
        Unavailable("away"),
    ],
)
def test_errors_can_be_pickled(error: ClientError) -> None:
    """As process pools and task queues do."""
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert repr(copy) == repr(error)
    assert vars(copy) == vars(error)
