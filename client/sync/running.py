"""Serve until the process is told to end, with the calling thread waiting for that."""

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

from aerobee.client.errors import InvalidUse
from aerobee.client.instance.stopping import heard_signals
from aerobee.client.sync.lifetime import BlockingClient, let_go

log = logging.getLogger(__name__)


class Stop:
    """Whether the process was told to end; `then` is called when it is, in the main thread."""

    def __init__(self) -> None:
        self.name = ""  # of the signal
        self.then: Callable[[], None] = lambda: None

    def __call__(self, number: int) -> None:
        """Be told of a signal."""
        self.name = signal.Signals(number).name
        self.then()


def run(*clients: BlockingClient[Any]) -> None:
    """Start these clients, serve until SIGINT or SIGTERM, then close them and return.

        run(orders, invoices)  # two PushConsumers

    Closing lets running handlers end, for up to `handover_timeout_ms` (10 s), and commits what they
    have done: after a restart nothing comes twice. A second signal ends the process at once, as if
    nobody listened to it; what was not committed comes again then. It returns as well when all the
    clients were closed, as by a handler. Clients start in the order in which they are named;
    consumers are closed first, then the others, the last one first, so that handlers may use a
    producer that is named here, too.

    Signals are heard in the main thread alone; elsewhere close the clients from another one. What
    was set for these signals before is set again afterwards. Raises InvalidUse without a client,
    and what their `start` raises, when those that had started are closed.
    """
    if not clients:
        raise InvalidUse("run() needs a client to start: run(consumer)")
    waiting = threading.Lock()
    waiting.acquire()
    with stopping() as stop:
        stop.then = lambda: let_go(waiting)
        try:
            for client in clients:
                if not stop.name:
                    client.start()
            while not stop.name and sum(client.tell_closed(waiting) for client in clients):
                waiting.acquire()
            if stop.name:
                log.info("stopping, for there was %s", stop.name)
        finally:
            _close(clients)


def _close(clients: tuple[BlockingClient[Any], ...]) -> None:
    """Close the consumers together, then the others; all of them, whatever one raises."""
    with contextlib.ExitStack() as last:
        for client in clients:
            if not client.consumes:
                last.callback(client.close)
        with contextlib.ExitStack() as first:
            for client in clients:
                if client.consumes and client.started:
                    first.callback(client.close)
                    first.callback(client.begin_close().wait)


@contextlib.contextmanager
def stopping() -> Iterator[Stop]:
    """Take the signals that ask a process to end, within a block."""
    stop = Stop()
    with heard_signals(stop):
        yield stop
