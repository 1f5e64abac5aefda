"""What a client call can raise, sorted by what the caller can do about it.

ClientError               every error of a client; the same class as AerobeeError
├── InvalidMessage        the message itself cannot be sent: correct it
├── InvalidUse            the call does not fit the state or the settings: correct the program
│   └── InvalidSetting    a setting's value (a ValueError as well)
├── BadAddress            an address is not of the form host:port
├── BadBody               a received body is not what it was read as (a ValueError as well)
├── RouteMissing          no broker serves the topic (for sending, or at all): create it, or wait
├── BrokerRefused         a broker or nameserver answered with an error code: see `code`
├── SendQueueFull         nothing more is sent soon: await `Producer.room`
├── SendFailed            every attempt of a send failed; the last reason is `__cause__`
├── TransactionNotBegun   the half message is not kept safely: it is rolled back
├── NoReply               a request was stored, and no reply came in time
│   └── ReplyConnectionLost  where a connection was lost on which it may have come
├── ReplierRefused        the replier says why there is no answer
├── ReplyNotTaken         the requester of a reply is gone, or did not take it
└── Unavailable           no answer in time, or no connection: try again later
    ├── NotConnected      the request was not sent: no connection could be made
    ├── ConnectionLost    the connection closed before the reply: it may have been carried out
    └── CallTimedOut      no reply in time: it may have been carried out
"""

import operator
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import AerobeeError, Unavailable

__all__ = [
    "BadBody",
    "BrokerRefused",
    "ClientError",
    "InvalidMessage",
    "InvalidSetting",
    "InvalidUse",
    "RouteMissing",
    "SendFailed",
    "SendQueueFull",
    "TransactionNotBegun",
    "Unavailable",
]

CODE_NAMES = {
    code: name
    for name, code in vars(ResponseCode).items()
    if isinstance(code, int) and not name.startswith("_")
}

NOT_NOW: Final = frozenset(
    {ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL}
)
"""Codes of a broker that did nothing, for reasons of its own; a moment later it may."""

REASONS_TOLD_MAX: Final = 4

MS_MAX: Final = 2**31 - 1
"""The longest time that an argument may say: 24 days."""
OFFSET_MAX: Final = 2**63 - 1


ClientError: TypeAlias = AerobeeError
"""The base of every error that leaves a client, that of `except` where all are meant."""


class InvalidMessage(ClientError):
    """The message or its topic breaks a rule that every broker has (Validators.java).

        except InvalidMessage as error:
            print("not sent, and never will be:", error)

    Nothing was sent; sending the same message again fails again.
    """


class InvalidUse(ClientError):
    """The call does not fit: a wrong argument, or a client that is not started, or closed.

        except InvalidUse as error:
            print("correct the program:", error)

    Nothing was sent; the same call fails again.
    """


class InvalidSetting(InvalidUse, ValueError):
    """A setting has a value that it cannot have; the text names it and what is allowed.

        except InvalidSetting as error:
            print(error)  # compression='rar': allowed are zlib, lz4, zstd

    Raised where the settings are made; a ValueError as well.
    """


class BadBody(ClientError, ValueError):
    """A received body is not what it was to be read as.

        except BadBody as error:
            print(error.__cause__)  # what the codec said

    Whoever handles the message again will get it again: `Later(delay_level=-1)` puts it to the dead
    letters at once.
    """

    def __init__(self, kind: str, place: str, why: Exception) -> None:
        super().__init__(f"the body is no {kind}: {why} (message {place})")


class RouteMissing(ClientError):
    """No nameserver knows a broker for the topic, and it cannot be created by sending to it.

        except RouteMissing as error:
            print(error.topic, "waits for a broker" if error.no_broker else "has to be created")

    `no_broker` says that no broker at all is registered there: it starts, has stopped, or registers
    elsewhere. Else the topic has to be created: `aerobee create-topic orders -n 127.0.0.1:9876`.
    """

    def __init__(self, topic: str, namesrv: str, *, no_broker: bool = False) -> None:
        if no_broker:
            why = (
                f"no broker is registered with the nameservers {namesrv}: none has been started,"
                " or it registers with others"
            )
        else:
            why = (
                f"the nameservers {namesrv} name no broker for it; create the topic, or let the"
                " broker create topics (autoCreateTopicEnable)"
            )
        super().__init__(f"no route to topic {topic!r}: {why}")
        self.topic = topic
        self.no_broker = no_broker


class BrokerRefused(ClientError):
    """A broker or nameserver answered with an error (MQBrokerException.java).

        except BrokerRefused as error:
            print(error.address, error.code, error.remark)

    `code` is a ResponseCode, `remark` the peer's own words, `address` its "ip:port".
    """

    def __init__(self, code: int, remark: str | None, address: str) -> None:
        name = CODE_NAMES.get(code, "unknown code")
        super().__init__(f"{address} answered {code} ({name}): {remark or 'no remark'}")
        self.code = code
        self.remark = remark or ""
        self.address = address


class SendFailed(ClientError):
    """A message could not be stored, after all the attempts that the settings and the time allow.

        except SendFailed as error:
            print(error.brokers, error.__cause__)

    The message may nevertheless have been stored if an attempt ended without an answer.
    `brokers` names where it was tried, in order; the last attempt's error is `__cause__`, and the
    text has the last one of each broker.
    """

    def __init__(
        self,
        topic: str,
        brokers: list[str],
        elapsed_ms: int,
        reasons: Mapping[str, Exception] = MappingProxyType({}),
    ) -> None:
        why = [f"{broker}: {error}" for broker, error in reasons.items()]
        if len(why) > REASONS_TOLD_MAX:
            why[REASONS_TOLD_MAX:] = [f"{len(why) - REASONS_TOLD_MAX} more brokers"]
        super().__init__(
            f"sending to topic {topic!r} failed {len(brokers)} times in {elapsed_ms} ms"
            + (f" ({'; '.join(why)})" if why else "")
        )
        self.topic = topic
        self.brokers = brokers


class SendQueueFull(ClientError, BufferError):
    """A producer holds as many messages without an outcome as it may: nothing was taken.

        except SendQueueFull as error:
            print(error.messages, "messages have no outcome yet, of", error.held_bytes, "bytes")
            await producer.room()  # and send it again

    ProducerSettings.send_soon_bytes_max is the limit; `producer.full` says beforehand that it is
    reached.
    """

    def __init__(self, messages: int, held_bytes: int) -> None:
        super().__init__(
            f"{messages} messages with {held_bytes} bytes have no outcome yet: wait by"
            " `producer.room()` before the next one, or raise ProducerSettings.send_soon_bytes_max"
        )
        self.messages = messages
        self.held_bytes = held_bytes


class TransactionNotBegun(ClientError):
    """A half message was stored, but a flush or a replica is late or missing: it is rolled back.

        except TransactionNotBegun as error:
            print(error.topic, error.message_id, error.status)

    The local transaction has not run. `status` names what is missing, as `SendStatus` does; sending
    again may succeed (DefaultMQProducerImpl.sendMessageInTransaction).
    """

    def __init__(self, topic: str, message_id: str, status: str) -> None:
        super().__init__(
            f"the half message {message_id} of topic {topic!r} is rolled back: its broker answered"
            f" {status}"
        )
        self.topic = topic
        self.message_id = message_id
        self.status = status


def wrong_argument(name: str, wanted: str, value: object, hint: str = "") -> InvalidUse:
    """Return the error for an argument of a wrong kind: its name, what is wanted, what it is."""
    return InvalidUse(what_is_wrong(name, wanted, value, hint))


def whole_number(name: str, value: object, least: int = 1, most: int = MS_MAX) -> int:
    """Return an argument that has to be a whole number; raises InvalidUse for all else.

    Whatever Python counts by will do, numbers of numpy among it, but no True and no 1.0.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if least <= value <= most:
            return value
        raise InvalidUse(out_of_range(name, value, least, most))
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        return whole_number(name, operator.index(value), least, most)
    raise wrong_argument(name, f"a whole number, {least} to {most}", value)


def out_of_range(name: str, value: int, least: int, most: int) -> str:
    """Say that a number is too small, or too large."""
    return f"{name}={value}: allowed are {least} to {most}"


def text(name: str, value: object, hint: str = "") -> str:
    """Return an argument that has to be a text; raises InvalidUse for all else."""
    if not isinstance(value, str):
        raise wrong_argument(name, "a text", value, hint)
    return value


def function(name: str, value: object, hint: str = "") -> None:
    """Raise InvalidUse for an argument that cannot be called."""
    if not callable(value):
        raise wrong_argument(name, "a function", value, hint)


def several(name: str, wanted: str, values: object, hint: str = "") -> list[Any]:
    """Return the elements of an argument; raises InvalidUse for what has none, and for a text."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise wrong_argument(name, wanted, values, hint)
    return list(values)


def what_is_wrong(name: str, wanted: str, value: object, hint: str = "") -> str:
    """Say that a value has to be of another kind, and what to write instead."""
    kind = "None" if value is None else type(value).__name__
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        kind = f"{kind} {value!r:.60}"
    return f"{name} must be {wanted}, is {kind}{f': {hint}' if hint else ''}"
