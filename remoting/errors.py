"""The root of every error this project raises, sorted by what to do next.

AerobeeError
├── ProtocolError    the peer sent bytes that cannot be understood: close the connection
├── RequestError     a well-formed request that is refused: reply with `code`, keep the connection
├── CorruptRecord    a stored or received record is damaged: stop reading this file or body
└── Unavailable      not possible now: try again later, or elsewhere
    ├── NotConnected     the request was not sent: no connection could be made
    ├── ConnectionLost   the connection closed before the reply: it may have been carried out
    └── CallTimedOut     no reply in time: it may have been carried out
"""

import os
from collections.abc import Mapping
from typing import Final

REMARK_CHARS_MAX: Final = 32_767  # a header has at most 16 MiB, and escapes take six times that


class AerobeeError(Exception):
    """The base of every error that Aerobee raises: something it noticed and can explain.

        try:
            await producer.send(message)
        except ClientError as error:  # the name of this class in aerobee.client
            print(error)

    Its text says what happened, to what, and what to do; errors can be pickled.
    """

    def __reduce__(self) -> tuple[object, ...]:
        """Let errors be pickled (task queues, process pools), whatever arguments they take."""
        return _remade, (type(self), self.args), self.__dict__


def _remade(kind: type[AerobeeError], texts: tuple[object, ...]) -> AerobeeError:
    error = kind.__new__(kind)
    error.args = texts
    return error


class ProtocolError(AerobeeError):
    """The peer sent bytes that are no frame, header or body: the connection cannot go on."""


class RequestError(AerobeeError):
    """A well-formed request that is refused: reply with `code` and text, keep the connection.

    A text that quotes what a peer sent is cut where it would fit into no header. `ext` are header
    fields that the refusal carries, for instance why a pull is forbidden.
    """

    def __init__(self, code: int, remark: str, ext: Mapping[str, str] | None = None) -> None:
        if len(remark) > REMARK_CHARS_MAX:
            remark = f"{remark[:REMARK_CHARS_MAX]}..."
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.ext = ext


class CorruptRecord(AerobeeError):
    """A message record is damaged; the text says where, what was found and what was expected."""


class Unavailable(AerobeeError):
    """The peer or the resource cannot be used now; the same call may succeed later.

        except Unavailable as error:
            print("again in a moment:", error)

    NotConnected, ConnectionLost and CallTimedOut tell whether something may have been done.
    """


class NotConnected(Unavailable):
    """No connection to the peer could be made; nothing was sent.

        except NotConnected as error:
            print("certainly not done:", error)

    The text has the address and the system's reason: refused, no route, no such host, no TLS.
    """


class ConnectionLost(Unavailable):
    """The connection closed before the reply came; the request may have been carried out.

        except ConnectionLost as error:
            print("perhaps done:", error)

    A message that was being sent may be stored; sent again it may be there twice.
    """


class CallTimedOut(Unavailable):
    """No reply came in time; the request may have been carried out, or still be.

        except CallTimedOut as error:
            print("perhaps done, or yet to be:", error)

    A message that was being sent may be stored; sent again it may be there twice.
    """


def system_error(error: OSError) -> str:
    """Say what the system refuses, of which file, and what to do where only a right is missing."""
    text = error.strerror or str(error)
    if not error.filename:
        return text
    if isinstance(error, PermissionError) and hasattr(os, "geteuid"):
        text += f" for user {os.geteuid()}: give it the right to, or run this as the owner"
    return f"{error.filename}: {text}"
