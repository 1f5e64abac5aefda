"""What an error is to a viewer: the status of the answer, and what to do about it."""

from typing import Final

from aiohttp import web

from aerobee.client.errors import BrokerRefused, InvalidMessage, InvalidUse
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import AerobeeError, CallTimedOut, NotConnected, Unavailable

_BY_CODE: Final = {
    ResponseCode.TOPIC_NOT_EXIST: "Look whether the topic was deleted, or is on other brokers.",
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: "The broker has no such group: it may have been"
    " deleted, or never consumed there.",
    ResponseCode.SYSTEM_BUSY: "The broker has too much to do: try again in a moment.",
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: "This broker is of a version that does not know the"
    " question; its other pages work.",
    ResponseCode.CONSUMER_NOT_ONLINE: "No member of the group is connected at the moment.",
}


def advice(error: Exception, *, is_local: bool = False) -> str:
    """Return what an operator may do about an error, "" where its text says all there is."""
    match error:
        case BrokerRefused(code=ResponseCode.NO_PERMISSION) if is_local:
            return "The brokers ask who you are: log in as a user of the cluster."
        case BrokerRefused(code=ResponseCode.NO_PERMISSION):
            return "An admin can allow it by a policy of your user."
        case BrokerRefused(code=code):
            return _BY_CODE.get(code, "The words are the broker's own; its log may have more.")
        case CallTimedOut():
            return (
                "It may have been done, or still be: look before you do it again. Brokers that are"
                " silent are asked again by themselves."
            )
        case NotConnected():
            return (
                "Look whether the process runs, and whether the address under which it is"
                " registered (brokerIP1) can be reached from here."
            )
        case Unavailable():
            return "Try again in a moment."
        case _:
            return ""


def status_of(error: Exception) -> int:
    """Return the status of HTTP that says of what kind an error is."""
    match error:
        case web.HTTPException():
            return error.status
        case InvalidUse() | InvalidMessage():
            return 422
        case BrokerRefused(code=ResponseCode.NO_PERMISSION):
            return 403
        case Unavailable():
            return 504
        case AerobeeError():
            return 502
        case _:
            return 500
