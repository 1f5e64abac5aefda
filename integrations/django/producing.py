"""The producer of a process, made when it is first used."""

import os
import threading
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from django.db import transaction

from aerobee.client.message import check_message, check_topic
from aerobee.client.sending.choice import check_choice
from aerobee.client.sending.due import due
from aerobee.client.sync import Message, Producer, SendResult
from aerobee.integrations.django.configured import NAME, configured

ANY_ID: Final = "0" * 32


class _OfProcess:
    """One producer for all threads of a process, another one for each child that is forked."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Have none: the parent's threads, and who holds its lock, are not in the child."""
        self._lock = threading.Lock()
        self._producer: Producer | None = None  # not closed: it is the parent's

    def get(self) -> Producer:
        """Return it, started."""
        found = self._producer
        if found is None or not found.started:
            with self._lock:
                found = self._producer
                if found is None or not found.started:
                    found = self._make()
                    self._producer = found
        return found

    def end(self) -> None:
        """Close it; the next use makes another."""
        with self._lock:
            found, self._producer = self._producer, None
        if found is not None:
            found.close()

    def _make(self) -> Producer:
        said = configured()
        made = Producer(
            said.producer_group, namesrv=said.namesrv, settings=said.producer, client=said.client
        )
        made.start()
        return made


_of_process = _OfProcess()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_of_process.forget)


def settings_changed(*, setting: str, **_: object) -> None:
    """Follow the settings of a test: what is sent next goes where AEROBEE says then."""
    if setting == NAME:
        _of_process.end()


def producer() -> Producer:
    """Return the producer of this process, as AEROBEE describes it: `aerobee.client.sync`'s.

        producer().send_many([Message("orders", b"%d" % at) for at in range(9)])

    It is started by the first use, shared by all threads, and ends with the process; a worker that
    was forked gets its own. Raises ImproperlyConfigured for wrong settings.
    """
    return _of_process.get()


def send(
    message: Message,
    *,
    key: str | int | None = None,
    deliver_at: datetime | None = None,
    delay: timedelta | None = None,
) -> SendResult:
    """Send a message now, wait for the broker's answer, and return where it went.

        send(Message("orders", b"7"), key="7")

    It takes and raises what `aerobee.client.sync.Producer.send` does. What the database has not
    committed may be undone still: see `send_on_commit`.
    """
    return producer().send(message, key=key, deliver_at=deliver_at, delay=delay)


def send_on_commit(
    message: Message,
    *,
    key: str | int | None = None,
    deliver_at: datetime | None = None,
    delay: timedelta | None = None,
    using: str | None = None,
    robust: bool = False,
) -> None:
    """Send a message when the transaction of a database commits, and not if it is rolled back.

        with transaction.atomic():
            order.save()
            send_on_commit(Message("orders", b"7"), key="7")

    Without a transaction it is sent at once. A wrong message is refused here, by InvalidMessage. A
    send that fails after the commit raises there, as Django's `on_commit` does; with `robust` that
    is logged and the other callbacks go on. Where the process dies, or no broker answers, between
    commit and answer the message is lost: a message that must not be needs an outbox, or a
    TransactionProducer.
    """
    said = configured()
    check_message(message, said.producer.body_bytes_max, said.producer.delay_level_max)
    check_topic(message.topic)
    check_choice(None, key, None)
    if deliver_at is not None or delay is not None:
        due(message, deliver_at, delay).wire_properties(ANY_ID)  # raises for what is no time
    else:
        message.wire_properties(ANY_ID)  # raises for what cannot be written
    sending = partial(send, message, key=key, deliver_at=deliver_at, delay=delay)
    transaction.on_commit(sending, using=using, robust=robust)
