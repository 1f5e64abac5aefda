"""Places where users look into what the client does, before and after."""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Self, TypeVar

import msgspec

from aerobee.client.errors import several, wrong_argument
from aerobee.client.message import Message, MessageQueue, SendResult
from aerobee.client.received import ReceivedMessage

log = logging.getLogger(__name__)

T = TypeVar("T")
H = TypeVar("H")

_everywhere: Final[dict[type, object]] = {}


class SendContext(msgspec.Struct):
    """One attempt of a send, as hooks see it (SendMessageContext.java).

    `messages` has more than one element for a batch; `half` says that a transaction decides about
    the message later. Exactly one of `result` and `error` is set when `after` is called, neither
    for a one-way send; `error` is CancelledError where nobody waits any more.
    """

    group: str
    messages: list[Message]
    queue: MessageQueue
    broker_address: str
    oneway: bool = False
    result: SendResult | None = None
    error: BaseException | None = None
    half: bool = False
    kept: dict[object, Any] = msgspec.field(
        default_factory=dict
    )  # by hooks, from `before` to `after`
    client_id: str = ""

    def begin(self, hooks: Sequence["SendHook"]) -> None:
        """Call hooks before the attempt; where one raises, those called before it hear of that."""
        called = 0
        try:
            for hook in hooks:
                hook.before(self)
                called += 1
        except BaseException as error:
            self.end(hooks[:called], error=error)
            raise

    def end(
        self,
        hooks: Sequence["SendHook"],
        result: SendResult | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Call hooks behind the attempt."""
        self.result, self.error = result, error
        for hook in hooks:
            try:
                hook.after(self)
            except Exception:
                log.exception("send hook failed hook=%s", type(hook).__name__)


class SendHook:
    """Called around each attempt to send; derive and override (SendMessageHook.java).

    What `before` raises ends the send; hooks that were called before it hear of that. It may change
    the message's properties, or better put another message in its place in `messages`: the user's
    own may be sent again. What `after` raises is logged and otherwise ignored.
    """

    def before(self, context: SendContext) -> None:
        """Look at, or change, what is about to be sent."""

    def after(self, context: SendContext) -> None:
        """Look at the attempt's outcome."""


class EndTransactionContext(msgspec.Struct):
    """A half message whose producer has said what becomes of it (EndTransactionContext.java).

    `state` is COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW, as RocketMQ spells it; `from_check` says
    that the broker had asked.
    """

    group: str
    message: Message
    broker_address: str
    message_id: str
    transaction_id: str | None
    state: str
    from_check: bool = False
    client_id: str = ""

    def tell(self, hooks: Iterable[object]) -> None:
        """Call those of a producer's hooks that want to know of the fate of half messages."""
        for hook in hooks:
            if isinstance(hook, EndTransactionHook):
                _guarded(hook.ended, self)


class EndTransactionHook:
    """Called when a half message's fate was told; derive and override (EndTransactionHook.java).

    One that is among a producer's hooks is found there. What it raises is logged.
    """

    def ended(self, context: EndTransactionContext) -> None:
        """Look at what was said."""


class RecallContext(msgspec.Struct):
    """A message that was called back before it was due, or could not be."""

    group: str
    topic: str
    message_id: str
    succeeded: bool
    region: str | None = None

    def tell(self, hooks: Iterable[object]) -> None:
        """Call those of a producer's hooks that want to know of recalls."""
        for hook in hooks:
            if isinstance(hook, RecallHook):
                _guarded(hook.recalled, self)


class RecallHook:
    """Called when a recall was answered; derive and override. What it raises is logged."""

    def recalled(self, context: RecallContext) -> None:
        """Look at how it went."""


class ConsumeContext(msgspec.Struct):
    """One call of a handler, as hooks see it (ConsumeMessageContext.java).

    `polled` says that a program has polled the messages: there is no call, they count as done.
    Before the call only the first three are set. `outcome` is then SUCCESS, FAILED (it said later),
    EXCEPTION (it raised `error`) or TIME_OUT (it succeeded, after more than the consume time-out).
    `broadcasts` says that every member of the group gets the message.
    """

    group: str
    queue: MessageQueue
    messages: list[ReceivedMessage]
    outcome: str = ""
    error: BaseException | None = None
    polled: bool = False
    kept: dict[object, Any] = msgspec.field(
        default_factory=dict
    )  # by hooks, from `before` to `after`
    client_id: str = ""
    broadcasts: bool = False


class ConsumeHook:
    """Called around each call of a handler; derive and override (ConsumeMessageHook.java).

    What a hook raises is logged and otherwise ignored.
    """

    def before(self, context: ConsumeContext) -> None:
        """Look at what is about to be handled."""

    def after(self, context: ConsumeContext) -> None:
        """Look at how it went."""


class SettleContext(msgspec.Struct):
    """What a consumer tells a broker of what it got, as hooks see it.

    `operation` is "nack" (`messages` are given back) or "commit" (the program stores the offset of
    `queue`, and `messages` is empty). `succeeded` says whether the broker has taken it, and `error`
    what was raised where it has not.
    """

    operation: str
    group: str
    queue: MessageQueue
    messages: list[ReceivedMessage]
    succeeded: bool = False
    error: BaseException | None = None
    kept: dict[object, Any] = msgspec.field(
        default_factory=dict
    )  # by hooks, from `settling` to `settled`
    client_id: str = ""
    broadcasts: bool = False


class SettleHook:
    """Called around what settles messages; derive and override. What it raises is logged.

    One that is among a consumer's hooks is found there. Offsets that are stored by the way, every
    few seconds and for all queues, are none of these calls.
    """

    def settling(self, context: SettleContext) -> None:
        """Look at what is about to be told."""

    def settled(self, context: SettleContext) -> None:
        """Look at how it went."""


class FilterContext(msgspec.Struct):
    """What one pull brought, the subscription applied (FilterMessageContext.java).

    A hook takes out of `messages` what shall not be handled: it counts as consumed. Their order is
    that of the queue, whatever a hook makes of it; what the pull has not brought is left out.
    """

    group: str
    queue: MessageQueue
    messages: list[ReceivedMessage]


class FilterHook:
    """Called with the messages of each pull; derive and override (FilterMessageHook.java).

    What a hook raises is logged and otherwise ignored.
    """

    def filter(self, context: FilterContext) -> None:
        """Remove messages from `context.messages`."""


class Hooks(msgspec.Struct):
    """The hooks of one consumer."""

    consume: list[ConsumeHook] = msgspec.field(default_factory=list)
    filter: list[FilterHook] = msgspec.field(default_factory=list)
    settle: list[SettleHook] = msgspec.field(default_factory=list)
    client_id: Callable[[], str] = str  # of the client, which may have to look it up at its start
    broadcasts: bool = False

    @classmethod
    def of(cls, hooks: Iterable[ConsumeHook | FilterHook]) -> Self:
        """Sort hooks by what they are called for; one may be both. Raises InvalidUse for others."""
        each = several("hooks", "a sequence of hooks", hooks)
        for hook in each:
            if not isinstance(hook, ConsumeHook | FilterHook):
                raise wrong_argument("a consumer's hook", "a ConsumeHook or a FilterHook", hook)
        return cls(
            [hook for hook in each if isinstance(hook, ConsumeHook)],
            [hook for hook in each if isinstance(hook, FilterHook)],
            [hook for hook in each if isinstance(hook, SettleHook)],
        )

    def begin(self, client_id: Callable[[], str], *, broadcasts: bool) -> None:
        """Say whose they are, when the consumer starts; those for every client join them."""
        self.client_id, self.broadcasts = client_id, broadcasts
        self.consume = with_everywhere(self.consume, ConsumeHook)
        self.settle = with_everywhere(self.settle, SettleHook)

    def select(
        self, group: str, queue: MessageQueue, messages: list[ReceivedMessage]
    ) -> list[ReceivedMessage]:
        """Return what the filter hooks leave of a pull's messages."""
        context = FilterContext(group, queue, messages.copy())
        for hook in self.filter:
            _guarded(hook.filter, context)
        left = {message.queue_offset: message for message in context.messages}
        return [left[each.queue_offset] for each in messages if each.queue_offset in left]

    def handed_out(self, group: str, queue: MessageQueue, messages: list[ReceivedMessage]) -> None:
        """Call the hooks around messages that their consumer gave to its user."""
        if not self.consume or not messages:
            return
        context = self.consuming(group, queue, messages)
        context.polled = True
        for hook in self.consume:
            _guarded(hook.before, context)
        context.outcome = "SUCCESS"
        for hook in self.consume:
            _guarded(hook.after, context)

    def consuming(
        self, group: str, queue: MessageQueue, messages: list[ReceivedMessage]
    ) -> ConsumeContext:
        """Return what hooks are told of messages."""
        return ConsumeContext(
            group, queue, messages, client_id=self.client_id(), broadcasts=self.broadcasts
        )

    async def settled(
        self,
        operation: str,
        group: str,
        queue: MessageQueue,
        messages: list[ReceivedMessage],
        told: Awaitable[T],
        failed: Callable[[T], bool] = lambda _: False,
    ) -> T:
        """Await what settles messages between the hooks, and return its answer.

        `failed` tells by the answer whether the broker has not taken it.
        """
        if not self.settle:
            return await told
        context = SettleContext(
            operation, group, queue, messages,
            client_id=self.client_id(), broadcasts=self.broadcasts,
        )  # fmt: skip
        for hook in self.settle:
            _guarded(hook.settling, context)
        try:
            answer = await told
            context.succeeded = not failed(answer)
            return answer
        except BaseException as error:
            context.error = error
            raise
        finally:
            for hook in self.settle:
                _guarded(hook.settled, context)

    async def around(
        self,
        context: ConsumeContext,
        handled: Awaitable[object],
        failed: Callable[[object], bool],
        timeout_ms: int,
    ) -> object:
        """Await a handler between the hooks and return its answer; what it raises is raised.

        `failed` tells by the answer whether the messages come again.
        """
        for hook in self.consume:
            _guarded(hook.before, context)
        began = time.monotonic()
        try:
            answer = await handled
            if failed(answer):
                context.outcome = "FAILED"
            elif (time.monotonic() - began) * 1000 >= timeout_ms:
                context.outcome = "TIME_OUT"
            else:
                context.outcome = "SUCCESS"
            return answer
        except BaseException as error:
            context.outcome, context.error = "EXCEPTION", error
            raise
        finally:
            for hook in self.consume:
                _guarded(hook.after, context)


def _guarded(call: Callable[[T], None], context: T) -> None:
    try:
        call(context)
    except Exception:
        log.exception("hook failed hook=%s", call)


def watch_everywhere(hook: object, kind: type) -> None:
    """Have every client that starts from now on call a hook, unless it has one of `kind` itself."""
    _everywhere[kind] = hook


def watch_no_more(kind: type) -> None:
    """Have clients that start from now on go without the hook of a kind."""
    _everywhere.pop(kind, None)


def with_everywhere(own: Sequence[H], called: type[H]) -> list[H]:
    """Return a client's own hooks, and behind them those for every client that are `called`."""
    return [
        *own,
        *(
            hook
            for kind, hook in _everywhere.items()
            if isinstance(hook, called) and not any(isinstance(each, kind) for each in own)
        ),
    ]
