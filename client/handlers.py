"""What users hand over to have their messages handled, and what it may answer."""

import asyncio
import contextvars
import enum
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from aerobee.client.errors import InvalidUse, whole_number
from aerobee.client.received import ReceivedMessage


class ConsumeResult(enum.Enum):
    """What a handler says of its message (ConsumeConcurrentlyStatus.java); None means SUCCESS.

        async def handle(message: ReceivedMessage) -> ConsumeResult:
            return ConsumeResult.LATER if message.reconsume_times == 0 else ConsumeResult.SUCCESS

    LATER has it come again after a while that grows each time; `Later(...)` says when. To raise
    does the same, and is logged.
    """

    SUCCESS = "CONSUME_SUCCESS"
    LATER = "RECONSUME_LATER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """LATER with particulars (ConsumeConcurrentlyContext.java, ConsumeOrderlyContext.java).

        async def handle(message: ReceivedMessage) -> Later | None:
            if message.reconsume_times >= 3:
                return Later(delay_level=-1)  # no more: to the dead letters
            return Later(delay_level=2)  # again after 5 s

    `delay_level` says when the message comes again: 1-18 as in `Message.delay_level`, 0 lets the
    broker wait longer each time, -1 puts it to the dead letters. Of a batch the first `succeeded`
    messages count as consumed. `suspend_ms` is for orderly consumption: how long the queue rests
    (10 to 30,000), None for `PushSettings.suspend_ms`; there `delay_level` says nothing. Raises
    InvalidUse for what is no whole number, and for a level below -1.
    """

    delay_level: int = 0
    succeeded: int = 0
    suspend_ms: int | None = None

    def __post_init__(self) -> None:
        for name in ("delay_level", "succeeded", "suspend_ms"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole and (name, value) != ("suspend_ms", None):
                raise InvalidUse(f"Later({name}={value!r}): it must be a whole number")
        if not -1 <= self.delay_level < 2**31:
            raise InvalidUse(f"Later(delay_level={self.delay_level}): allowed are -1, 0, 1 ...")


Answer: TypeAlias = ConsumeResult | Later | None
"""What a handler may say; None is success."""
MessageHandler: TypeAlias = Callable[[ReceivedMessage], Answer | Awaitable[Answer]]
"""A handler of one message, async or plain; a plain one runs in a thread."""
BatchHandler: TypeAlias = Callable[[list[ReceivedMessage]], Answer | Awaitable[Answer]]
"""A handler of up to `batch` messages, async or plain."""
Call = Callable[[Any], Awaitable[object]]

_LATER = Later()


class InvalidHandler(InvalidUse, TypeError):
    """What `subscribe` was given cannot be called with a message, or would never run.

        except InvalidHandler as error:
            print("correct the program:", error)

    Nothing is subscribed then.
    """


class Handler(msgspec.Struct, eq=False):
    """A user's function, made async: it gets one message, or a list of up to `batch`.

    `is_told` says that an answer of it which means nothing was told.
    """

    call: Call
    batch: int | None = None
    is_told: bool = False


class HandlerThreads:
    """Up to `size` threads for the handlers that are plain functions, made when they are needed.

    asyncio's own threads would be fewer than the handlers that may run, and belong to everybody.
    Python ends no process before its threads have ended: a function that hangs for ever keeps it,
    though its consumer is closed.
    """

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._pool: ThreadPoolExecutor | None = None

    async def call(self, function: Callable[[Any], object], given: Any) -> object:
        """Run a function in one of the threads, in the caller's context."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._size, thread_name_prefix=self._name)
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, context.run, _call, function, given)

    def close(self) -> None:
        """Let the threads end; a function that still runs is not stopped, nor waited for."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _call(function: Callable[[Any], object], given: Any) -> object:
    """Call a function in its thread."""
    try:
        return function(given)
    except StopIteration as error:  # no future takes it: who waits would wait for ever
        raise RuntimeError("handler raised StopIteration") from error


def as_handler(
    function: Callable[[Any], object], batch: int | None, threads: HandlerThreads
) -> Handler:
    """Return a handler: `function` itself if it is async, else the function run in a thread.

    Raises InvalidUse for a batch that is not 1 to 1,024 (DefaultMQPushConsumerImpl.checkConfig),
    InvalidHandler for what cannot be called with a message.
    """
    if batch is not None:
        batch = whole_number("batch", batch, 1, 1024)
    _check_callable(function, "one list of messages" if batch is not None else "one message")
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object whose __call__ is async
    ):
        return Handler(function, batch)  # type: ignore[arg-type]

    async def in_thread(given: Any) -> object:
        answer = await threads.call(function, given)
        # as of `lambda message: handle(message)`, which does not look async
        return await answer if inspect.isawaitable(answer) else answer

    return Handler(in_thread, batch)


def _check_callable(function: object, given: str) -> None:
    """Raise InvalidHandler for what cannot be called so, or whose call would do nothing."""
    name = getattr(function, "__qualname__", None) or repr(function)
    if not callable(function):
        raise InvalidHandler(f"handler {name} is no function: it has to take {given}")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidHandler(f"handler {name} is a generator, which would never run: no yield")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of what is written in C and does not tell
        return
    try:
        signature.bind(None)
    except TypeError as error:
        raise InvalidHandler(f"handler {name}{signature} has to take {given}: {error}") from None


def means_nothing(answer: object) -> bool:
    """Whether a handler's answer is none of those that say something."""
    return answer is not None and not isinstance(answer, (ConsumeResult, Later))


def failure(answer: object) -> Later | None:
    """Return how the messages come again, or None for a success.

    Whatever is neither LATER nor a Later means success: a handler may be any function.
    """
    if answer is ConsumeResult.LATER:
        return _LATER
    return answer if isinstance(answer, Later) else None
