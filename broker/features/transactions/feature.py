"""Transactions as a feature: what is open, who decides about it, and who is told of it."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from aerobee.broker.features.feature import Feature, Parts
from aerobee.broker.features.transactions.asking import Asking
from aerobee.broker.features.transactions.checking import HalfChecks, waits_of
from aerobee.broker.features.transactions.ending import COMMIT, OUTCOMES, ROLLBACK, Endings
from aerobee.broker.features.transactions.fast_halves import FastHalves
from aerobee.broker.features.transactions.halves import OpenHalves
from aerobee.broker.features.transactions.metrics_file import TransactionMetricsFile
from aerobee.broker.features.transactions.ops import Clocks, OpMessages
from aerobee.broker.features.transactions.outcomes import Outcomes
from aerobee.broker.features.transactions.placing import HalfPlacer
from aerobee.broker.features.transactions.progress import TransactionProgress
from aerobee.broker.features.transactions.recovery import TransactionRecovery
from aerobee.broker.features.transactions.resuming import Resuming
from aerobee.broker.room import Distribution, Sample, Work
from aerobee.remoting.clocks import steady_clock_ms, wall_clock_ms
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.headers.transactions import (
    EndTransactionRequest,
    ResumeCheckHalfMessageRequest,
)
from aerobee.remoting.net.routes import Routes

log = logging.getLogger(__name__)

LATENCY: Final = "rocketmq_finish_message_latency_milliseconds"
_COUNTED: Final = {
    COMMIT: "rocketmq_commit_messages_total",
    ROLLBACK: "rocketmq_rollback_messages_total",
}


class Transactions(Feature):
    """Transactions; switched off by `transactionEnable=false`."""

    def __init__(self, parts: Parts) -> None:
        self._live = parts.live
        self._offsets = parts.tables.offsets
        self._store = parts.writing.store
        self._tick = parts.writing.tick
        settings, writing = parts.live.current, parts.writing
        self.clock = clock = Clocks(
            wall_clock_ms, steady_clock_ms, asyncio.get_running_loop().call_later
        )
        self.halves = halves = OpenHalves(waits_of(settings))
        self._ops = ops = OpMessages(writing, clock, parts.health.troubles.met)
        self.endings = endings = Endings(parts.live, writing, parts.cold.lookups, halves, ops)
        id_prefix = writing.store_host.hex().upper()
        asking = Asking(parts.live, parts.members, id_prefix)
        self.checks = HalfChecks(parts.live, writing, endings, asking, parts.tables.topics)
        self._progress = TransactionProgress(self._store, self._offsets, halves, ops, clock)
        self._metrics = TransactionMetricsFile(clock.now_ms, settings.config_dir)
        self._progress.ended_before = self._metrics.load()
        endings.on_refused = self.checks.on_refused = parts.health.troubles.met
        ops.on_written = self._progress.changed
        self.found = TransactionRecovery(self._store, self._progress, halves, ops, clock).run()
        self.placer = HalfPlacer(parts.live, writing, halves, clock)
        self.placer.added = self.checks.added
        writing.halves = FastHalves(parts.live, writing, endings, self.placer)
        writing.outcomes = Outcomes(self._store, parts.cold.lookups, halves)
        self.files = (self._metrics.file,)
        self.answers = Routes("transactions")
        self.answers.on(RequestCode.END_TRANSACTION, EndTransactionRequest)(endings.end)
        self.answers.on(RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHalfMessageRequest)(
            Resuming(self._store, endings, self.checks).resume
        )
        parts.live.on_change(self.checks.apply)

    async def start(self) -> None:
        """Note what recovery has found, and ask about what is due."""
        self._progress.start()
        if not self._store.read_only:
            self._ops.over(self.found.over)
        self._progress.changed()
        self.checks.start()

    async def stop(self) -> None:
        """Ask nobody any more, and write what is pending."""
        await self.checks.close()
        self._ops.stop()
        self._progress.stop()

    def close(self) -> OSError | None:
        """Write how far everything is done, all of which is on the disk now."""
        if not self._store.read_only:
            self._progress.settle()
        self._metrics.update(self.halves.by_topic, self._progress.ended_before)
        try:
            self._offsets.file.flush_now()
            self._metrics.file.flush_now()
        except OSError as error:
            return error
        return None

    def background(self) -> Iterable[Work]:
        """Save the counts now and then."""
        return (Work("transaction metrics", self._save),)

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell of open transactions and of outcomes."""
        return {
            "rocketmq_half_messages": "Transactions that are open, by topic",
            "rocketmq_commit_messages_total": "Transactions that were committed, by topic",
            "rocketmq_rollback_messages_total": "Transactions that were rolled back, by topic",
            LATENCY: "Seconds, whatever its name says, from a message's birth to its commit",
            "aerobee_transactions_given_up_total": "Transactions that nobody decided, by topic",
            "aerobee_transaction_checks_total": "Questions to producers about theirs, by topic",
            "aerobee_half_message_age_seconds": "Age of the oldest transaction that is open",
        }

    def samples(self) -> Iterator[Sample]:
        """Yield what is open, how old it is, and what became of the others."""
        for topic, count in list(self.halves.by_topic.items()):
            yield Sample("rocketmq_half_messages", count, {"topic": topic})
        for (topic, outcome), count in list(self.endings.counts.items()):
            name = _COUNTED.get(outcome, "aerobee_transactions_given_up_total")
            yield Sample(name, count, {"topic": topic})
        for topic, count in list(self.checks.counts.items()):
            yield Sample("aerobee_transaction_checks_total", count, {"topic": topic})
        yield Sample("aerobee_half_message_age_seconds", self._oldest_age_ms() / 1000)

    def distributions(self) -> Iterator[Distribution]:
        """Yield how long commits took."""
        for topic, times in self.endings.latencies():
            yield Distribution(LATENCY, times, {"topic": topic})

    def shown(self) -> Mapping[str, Any]:
        """Return what `/api/broker` shows of it."""
        outcomes = dict.fromkeys(OUTCOMES.values(), 0)
        for (_, outcome), count in self.endings.counts.items():
            outcomes[OUTCOMES[outcome]] += count
        return {
            "transactions": {
                "open": len(self.halves),
                "oldestAgeMs": self._oldest_age_ms(),
                "openByTopic": dict(self.halves.by_topic),
                "outcomes": outcomes,
                "checks": sum(self.checks.counts.values()),
            }
        }

    def _oldest_age_ms(self) -> int:
        oldest_ms = self.halves.oldest_ms()
        return 0 if oldest_ms is None else max(0, self.clock.now_ms() - oldest_ms)

    async def _save(self) -> None:
        """Write the counts, every `transactionMetricFlushInterval`."""
        while True:
            await asyncio.sleep(self._live.current.transaction_metric_flush_interval / 1000)
            try:
                self._metrics.update(self.halves.by_topic, self._progress.ended_before)
                await self._metrics.file.flush()
            except OSError:  # see TableFile.error
                pass
            except Exception:  # the next round tries again
                log.exception("transaction_metrics_not_saved")


make = Transactions
