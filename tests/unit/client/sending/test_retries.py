"""Another attempt is made where it can help."""

import pytest

from aerobee.client.errors import BrokerRefused, InvalidMessage
from aerobee.client.sending.retries import worth_retrying
from aerobee.remoting.errors import CallTimedOut, ConnectionLost, NotConnected


@pytest.mark.parametrize("code", [1, 2, 14, 16, 17, 204, 205, 1500])
def test_refusals_of_one_broker_are_retried(code: int) -> None:
    """DefaultMQProducer's retryResponseCodes."""
    assert worth_retrying(BrokerRefused(code, None, "a:1"))


@pytest.mark.parametrize("code", [3, 13, 29, 215])
def test_refusals_of_the_message_are_not(code: int) -> None:
    """Every broker would say the same."""
    assert not worth_retrying(BrokerRefused(code, None, "a:1"))


def test_missing_answers_are_retried() -> None:
    """No connection, a lost one, no reply in time; not what the caller did wrong."""
    for error in (NotConnected(""), ConnectionLost(""), CallTimedOut("")):
        assert worth_retrying(error)
    assert not worth_retrying(InvalidMessage(""))
