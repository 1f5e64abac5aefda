"""Which function answers which request code, and how its outcome becomes a reply."""

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import REMARK_CHARS_MAX, RequestError
from aerobee.remoting.headers.typed import Header, decode_header, encode_header
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.tasks import OnFailure

log = logging.getLogger(__name__)

C = TypeVar("C")
H = TypeVar("H", bound=Header)


class Request(msgspec.Struct, Generic[H], frozen=True):
    """What a processor gets: the typed header, the whole command, and who asked."""

    header: H
    command: Command
    connection: Connection


class Reply(msgspec.Struct, frozen=True):
    """What a processor answers; a bare header means SUCCESS, None that it answers by itself."""

    header: Header | None = None
    body: bytes | memoryview = b""
    code: int = 0
    remark: str | None = None
    ext: Mapping[str, str] | None = None  # raw fields beside those of `header`


class NoHeader(Header, frozen=True):
    """For requests that carry no header fields."""


Outcome = Reply | Header | None
Processor = Callable[[C, Request[Any]], Outcome | Coroutine[Any, Any, Outcome]]


class Routes(Generic[C]):
    """One family's table: request code to (header type, function)."""

    def __init__(self, family: str) -> None:
        self.family = family
        self.table: dict[int, tuple[type[Header], Processor[C]]] = {}

    def on(
        self, code: int, header_type: type[Header] = NoHeader
    ) -> Callable[[Processor[C]], Processor[C]]:
        """Register the decorated function for `code`; it may be plain, or async where it waits."""

        def register(processor: Processor[C]) -> Processor[C]:
            if code in self.table:
                raise ValueError(f"request code {code} is registered twice in {self.family}")
            self.table[code] = (header_type, processor)
            return processor

        return register


class Watching(Protocol):
    """Who wants to know what requests take; `waiting` is kept for it, by request code."""

    waiting: Counter[int]

    def answered(self, command: Command, code: int, seconds: float) -> None:
        """Note that a request was answered with a code, and how long that took."""


class Dispatcher(Generic[C]):
    """Decodes headers, calls processors, maps errors to replies; the only place that does.

    `spawn` runs the coroutine of a processor that has to wait, or returns None where that is not
    done any more (`Tasks.start`); others are answered at once. `on_failure` is told of errors that
    nobody foresaw; without it each is logged with its trace. `watching` is told what requests take,
    but for those whose processor answers by itself.
    """

    def __init__(
        self,
        context: C,
        families: Iterable[Routes[C]],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[Any] | None],
        on_failure: OnFailure | None = None,
        watching: Watching | None = None,
    ) -> None:
        self._watching = watching
        self._context = context
        self._spawn = spawn
        self._on_failure = on_failure or log_failure
        self.table: dict[int, tuple[type[Header], Processor[C]]] = {}
        for family in families:
            for code, route in family.table.items():
                if code in self.table:
                    raise ValueError(f"request code {code} is registered twice ({family.family})")
                self.table[code] = route

    def put_before(self, code: int, before: Callable[[Processor[C]], Processor[C]]) -> None:
        """Have a code served by what `before` makes of its processor; nothing where it has none."""
        if (route := self.table.get(code)) is not None:
            header_type, processor = route
            self.table[code] = header_type, before(processor)

    def __call__(self, connection: Connection, command: Command) -> None:
        """Answer one request on its connection, now or when its processor has finished."""
        began_s = monotonic()
        try:
            route = self.table.get(command.code)
            if route is None:
                raise RequestError(
                    ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                    f" request type {command.code} not supported",  # NettyRemotingAbstract's words
                )
            header_type, processor = route
            request = Request(decode_header(header_type, command.ext), command, connection)
            outcome = processor(self._context, request)
        except Exception as error:  # noqa: BLE001  every fault of one request ends as its reply
            self._answer(connection, command, failure(command, error, self._on_failure), began_s)
            return
        if inspect.iscoroutine(outcome):
            self._wait(connection, command, outcome, began_s)
        else:
            self._answer(connection, command, outcome, began_s)  # type: ignore[arg-type]

    def _answer(
        self, connection: Connection, command: Command, outcome: Outcome, began_s: float
    ) -> None:
        answer(connection, command, outcome)
        if self._watching is not None and outcome is not None:
            code = outcome.code if isinstance(outcome, Reply) else ResponseCode.SUCCESS
            self._watching.answered(command, code, monotonic() - began_s)

    def _wait(
        self,
        connection: Connection,
        command: Command,
        waiting: Coroutine[Any, Any, Outcome],
        began_s: float,
    ) -> None:
        """Answer when the processor has finished; a task may be refused, or end unbegun."""
        body_bytes, watching = len(command.body), self._watching
        connection.budget.begin_waiting(connection, body_bytes)
        if watching is not None:
            watching.waiting[command.code] += 1

        def ended(_: object) -> None:
            waiting.close()  # nothing, where it has run to its end
            connection.budget.end_waiting(connection, body_bytes)
            if watching is not None:
                watching.waiting[command.code] -= 1

        task = self._spawn(self._finish(connection, command, waiting, began_s))
        if task is None:
            ended(task)
        else:
            task.add_done_callback(ended)

    async def _finish(
        self,
        connection: Connection,
        command: Command,
        waiting: Coroutine[Any, Any, Outcome],
        began_s: float,
    ) -> None:
        try:
            outcome = await waiting
        except Exception as error:  # noqa: BLE001  as above
            outcome = failure(command, error, self._on_failure)
        self._answer(connection, command, outcome, began_s)


def log_failure(what: str, error: BaseException) -> None:
    """Log an error that nobody foresaw, with its trace."""
    log.error("%s failed", what, exc_info=error)


def failure(command: Command, error: Exception, tell: OnFailure = log_failure) -> Reply:
    """Turn what a processor raised into a reply; `tell` hears of what nobody foresaw."""
    if isinstance(error, RequestError):
        return Reply(code=error.code, remark=error.remark, ext=error.ext)
    tell(f"request {command.code}", error)
    remark = f"{type(error).__name__}: {error}"[:REMARK_CHARS_MAX]
    return Reply(code=ResponseCode.SYSTEM_ERROR, remark=remark)


def answer(connection: Connection, command: Command, outcome: Outcome) -> None:
    """Send the reply to `command`, unless it is one-way or the processor answers by itself."""
    if outcome is None or command.is_oneway:
        return
    reply = outcome if isinstance(outcome, Reply) else Reply(outcome)
    ext = encode_header(reply.header) if reply.header is not None else {}
    if reply.ext:
        ext.update(reply.ext)
    connection.send(command.reply(reply.code, ext, reply.body, reply.remark))
