"""Places where users look into what the client does, before and after."""

from dataclasses import dataclass

from aerobee.client.message import Message, MessageQueue, SendResult


@dataclass(slots=True)
class SendContext:
    """One attempt of a send, as hooks see it (SendMessageContext.java).

    `messages` has more than one element for a batch. Exactly one of `result` and `error` is set
    when `after` is called, neither for a one-way send.
    """

    group: str
    messages: list[Message]
    queue: MessageQueue
    broker_address: str
    oneway: bool = False
    result: SendResult | None = None
    error: Exception | None = None


class SendHook:
    """Called around each attempt to send; derive and override (SendMessageHook.java).

    What `before` raises ends the send; it may change the message's properties. What `after` raises
    is logged and otherwise ignored.
    """

    def before(self, context: SendContext) -> None:
        """Look at, or change, what is about to be sent."""

    def after(self, context: SendContext) -> None:
        """Look at the attempt's outcome."""
