"""What is sent, and how: the body, its headers, and the words that brokers know."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from faststream.response import PublishCommand, Response
from faststream.response.publish_type import PublishType

from aerobee.client import MessageQueue, ReceivedMessage

__all__ = ["AerobeePublishCommand", "AerobeeResponse", "SendOptions"]


class SendOptions(TypedDict, total=False):
    """How a message is sent, by keywords of `publish`, `publisher` and `AerobeeResponse`.

    `tags`, `keys`: as `Message` has them. `key`: equal ones share a queue; `queue` names one.
    `delay`, `deliver_at`: when consumers get it. `timeout_ms`: of all attempts (3,000).
    """

    tags: str | None
    keys: str | Iterable[str]
    key: str | int | None
    queue: MessageQueue | None
    delay: timedelta | None
    deliver_at: datetime | None
    timeout_ms: int | None


class AerobeePublishCommand(PublishCommand):
    """One message to publish, on its way through the middlewares.

    `request` is the message that it answers, if any; `timeout_s` is how long a request waits.
    """

    def __init__(
        self,
        body: Any,
        *,
        how: SendOptions,
        request: ReceivedMessage | None = None,
        timeout_s: float = 3.0,
        **about: Any,
    ) -> None:
        about.setdefault("_publish_type", PublishType.PUBLISH)
        super().__init__(body, **about)
        self.how = how
        self.request = request
        self.timeout_s = timeout_s
        self.bodies: tuple[Any, ...] | None = None  # of a batch

    @property
    def batch_bodies(self) -> tuple[Any, ...]:
        """The bodies, where there are several."""
        return self.bodies if self.bodies is not None else super().batch_bodies

    @batch_bodies.setter
    def batch_bodies(self, bodies: Iterable[Any]) -> None:
        self.bodies = tuple(bodies)

    @classmethod
    def from_cmd(cls, cmd: PublishCommand) -> "AerobeePublishCommand":
        """Return a command as this broker's."""
        if isinstance(cmd, AerobeePublishCommand):
            return cmd
        return cls(
            cmd.body,
            how={},
            destination=cmd.destination,
            correlation_id=cmd.correlation_id,
            headers=cmd.headers,
            reply_to=cmd.reply_to,
            _publish_type=cmd.publish_type,
        )


class AerobeeResponse(Response):
    """What a handler returns to say how its answer is published.

    return AerobeeResponse(order, tags="paid", delay=timedelta(minutes=5))
    """

    def __init__(
        self,
        body: Any,
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        **how: Unpack[SendOptions],
    ) -> None:
        super().__init__(body, headers=headers, correlation_id=correlation_id)
        self.how = how

    def as_publish_command(self) -> AerobeePublishCommand:
        """Return what is to be published."""
        return AerobeePublishCommand(
            self.body, how=self.how, headers=self.headers, correlation_id=self.correlation_id
        )
