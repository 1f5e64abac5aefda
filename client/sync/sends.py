"""A send that its thread waits for: it goes by the lane, without a task, where that takes it."""

import asyncio
from typing import Any

from aerobee.client.message import Message, SendResult
from aerobee.client.sending.fast import SendHandle as Sent
from aerobee.client.sending.producer import Producer
from aerobee.client.sync.calls import Call
from aerobee.client.sync.loop_thread import LoopThread
from aerobee.remoting.errors import AerobeeError


class SendCall(Call[SendResult]):
    """What `Producer.send` of asyncio does, begun in the loop's thread by a plain call.

    Only what the lane declines, and what has failed there, becomes a task.
    """

    __slots__ = ("_how", "_inner", "_message", "_sent")

    def __init__(
        self, thread: LoopThread, inner: Producer, message: Message, how: dict[str, Any]
    ) -> None:
        super().__init__(thread, None)
        self._inner = inner
        self._message = message
        self._how = how  # arguments of `send`, by name
        self._sent: Sent | None = None

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to send, unless it was given up before."""
        if not self.given_up:
            try:
                self._sent = self._inner._begin_send(self._message, **self._how)
            except Exception:  # noqa: BLE001  the checked path tells the caller what is wrong
                self._sent = None
            if self._sent is not None:
                self._thread.calls.add(self)
                self._sent.add_done_callback(self._answered_by)
                return
            self._work = self._inner.send(self._message, **self._how)
        super().begin(loop)

    async def over(self) -> None:
        """Return when it has ended."""
        while not self.done and self._sent is not None and not self._sent.done:
            await asyncio.wait([asyncio.ensure_future(self._sent)])
        await super().over()

    def _answered_by(self, sent: Sent) -> None:
        if self.done:  # it was given up, or the loop ends
            return
        error = sent.error
        if isinstance(error, AerobeeError):
            self._work = self._inner._send_again(self._message, sent, error)
            self._begin_task(asyncio.get_running_loop())
            return
        self.error = error
        if error is None:
            self.result = sent.result()
        self._end()
