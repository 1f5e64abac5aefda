"""Pairs of brokers that are asked for the same pulls again and again, and what came of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from aerobee.broker.app import Broker
from aerobee.broker.pulls.repeats import Repeats
from support.servers.twin_brokers import TwinBrokers


class Repeated:
    """How many pulls compiled code has answered."""

    pulls = 0


def counted(monkeypatch: pytest.MonkeyPatch) -> Repeated:
    """Count them."""
    count, made = Repeated(), Repeats.__init__

    def noted(self: Repeats, *arguments: Any) -> None:
        made(self, *arguments)
        if (serve := self.serve) is None:
            return

        def counting(*read: Any) -> tuple[int, int, int] | None:
            run = serve(*read)
            count.pulls += run[1] if run is not None else 0
            return run

        self.serve = counting

    monkeypatch.setattr(Repeats, "__init__", noted)
    return count


@contextmanager
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[TwinBrokers]:
    """Run a pair with queues of many files."""
    with TwinBrokers(
        monkeypatch, mappedFileSizeConsumeQueue="4000", mappedFileSizeCommitLog="131072"
    ) as twins:
        yield twins


def known_of(broker: Broker) -> dict[str, Any]:
    """Return what a broker has noted of pulls."""
    offsets, metrics = broker.context.tables.offsets, broker.context.health.metrics
    return {
        "offsets": {key: offsets._table[key] for key in offsets._table if "RMQ_SYS" not in key},
        "pulled": offsets.last_pulled,
        "resets": offsets.resets,
        "outgoing": metrics.outgoing,
        "totals": (metrics.found, metrics.missed, metrics.transferred),
    }


def same(twins: TwinBrokers, data: bytes) -> None:
    """Give both the same read, and compare all that came of it."""
    compiled, python = twins.exchange([data])
    assert compiled == python
    compiled, python = twins.each(known_of)
    assert compiled == python


def sure(twins: TwinBrokers, repeated: Repeated, data: bytes, count: int) -> None:
    """Have pulls served until they are known, then find so many of them answered at once."""
    same(twins, data)
    same(twins, data)
    before = repeated.pulls
    same(twins, data)
    assert repeated.pulls - before == count
