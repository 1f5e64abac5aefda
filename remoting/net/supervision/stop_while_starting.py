"""Hears of a stop while a start holds the loop, which hears of nothing: a store that recovers."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Collection
from contextlib import suppress
from typing import Final

log = logging.getLogger(__name__)

PATIENCE_S: Final = 0.5
"""So long the loop may take to hear of a stop; a start that holds it longer is given up."""
END: Final = 0  # no signal has that number


class StopWhileStarting:
    """Hands signals on to the loop from a thread; ends the process where the loop does not listen.

    That end is a kill with a line in the log and exit code 0: nothing is unwound, because whatever
    a start has on its way may be cut short by a kill, but not by an exception from anywhere.
    Handlers of signals are run between two steps of Python, so the thread is told by the system
    itself (`signal.set_wakeup_fd`): it hears also while a system call does not return.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, stops: Collection[int]) -> None:
        """Listen, until `end`; in the main thread, after the loop was given its handlers.

        `stops` are the signals that end the process; any others are only handed on.
        """
        self._loop = loop
        self._stops = stops
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._to_loop = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._starting = True
        self._thread = threading.Thread(target=self._listen, name="early stops", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Leave signals to the loop from now on; none is lost."""
        self._starting = False
        signal.set_wakeup_fd(self._to_loop)
        os.write(self._writer, bytes((END,)))
        self._thread.join()
        os.close(self._reader)
        os.close(self._writer)

    def _listen(self) -> None:
        while True:
            numbers = os.read(self._reader, 64)
            with suppress(OSError):  # as full as it is, the loop will look
                os.write(self._to_loop, numbers.replace(bytes((END,)), b""))
            for number in numbers:
                if number == END:
                    return
                if number in self._stops:
                    self._insist(signal.Signals(number))

    def _insist(self, number: signal.Signals) -> None:
        """Wait until the loop turns, and no longer than PATIENCE_S while it starts."""
        turned = threading.Event()
        self._loop.call_soon_threadsafe(turned.set)
        if turned.wait(PATIENCE_S) or not self._starting:
            return
        teller = threading.Thread(target=_tell, args=(number,), daemon=True)
        teller.start()  # for nobody may read the log, and its pipe be full
        teller.join(PATIENCE_S)
        os._exit(0)


def _tell(number: signal.Signals) -> None:
    log.warning(
        "stopped_while_it_started signal=%s: ended at once, as by a kill, within a step that"
        " cannot be cancelled, such as the recovery of a store; the next start begins anew",
        number.name,
    )
