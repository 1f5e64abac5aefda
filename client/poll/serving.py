"""Does a user's work with what is polled, until it is to end, and lets it finish what it has."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from aerobee.client.instance.stopping import TOLD_AFTER_S
from aerobee.client.poll.fetched import FetchedMessages
from aerobee.client.settings import LitePullSettings

log = logging.getLogger(__name__)


async def serve(
    work: Coroutine[Any, Any, None],
    fetched: FetchedMessages,
    settings: LitePullSettings,
    stop: asyncio.Event,
) -> None:
    """Do `work` until it is done or `stop` is set; raises what it raises.

    Then nothing more is handed out, and it ends when it has consumed what it was given, or is
    cancelled after `handover_timeout_ms`: that is not consumed.
    """
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            fetched.end()
            await _finish(working, fetched, settings.handover_timeout_ms / 1000)
    finally:
        stopping.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait([working])
    if not working.cancelled():
        working.result()


async def _finish(
    working: asyncio.Future[None], fetched: FetchedMessages, longest_s: float
) -> None:
    """Wait until the work is done, or asks in vain for more; else what it has comes again."""

    def tell() -> None:
        log.warning(
            "waiting up to %g s for what works on %d message%s, then closing",
            longest_s,
            fetched.handed,
            "" if fetched.handed == 1 else "s",
        )

    telling = asyncio.get_running_loop().call_later(TOLD_AFTER_S, tell)
    quiet = asyncio.ensure_future(fetched.wait_quiet())
    try:
        await asyncio.wait([working, quiet], timeout=longest_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        telling.cancel()
        quiet.cancel()
    if not working.done() and not quiet.done():
        log.warning("work takes too long, messages come again count=%d", fetched.handed)
        fetched.forget_working()
