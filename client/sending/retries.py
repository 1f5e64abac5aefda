"""Whether a failed send is worth another attempt."""

from typing import Final

from aerobee.client.errors import BrokerRefused
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import NotConnected, Unavailable

RETRIED_CODES: Final = frozenset(
    {  # DefaultMQProducer.retryResponseCodes
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)


def worth_retrying(error: Exception) -> bool:
    """Tell whether another broker, or the same one a moment later, may accept the message.

    No connection and no answer always are; a refusal is if its code may be this broker's alone
    (DefaultMQProducerImpl.sendDefaultImpl).
    """
    if isinstance(error, BrokerRefused):
        return error.code in RETRIED_CODES
    return isinstance(error, Unavailable)


def surely_not_stored(error: Exception) -> bool:
    """Tell whether a message that may be stored once only can be tried again.

    A half message whose reply is lost would be there twice, under one id: the application decides
    about one of them, and is asked about the other, which it would commit as well.
    """
    if isinstance(error, BrokerRefused):
        return error.code in RETRIED_CODES
    return isinstance(error, NotConnected)
