"""A machine that is turned off in mid-transaction: what the disk has decides, each ends once."""

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from support.disks.logs import ForgetfulFiles, bodies, opened, small
from support.features.transactions import COMMIT, ROLLBACK
from support.servers.live_broker import small_settings

from aerobee.broker.cold.parts import Cold
from aerobee.broker.features.feature import Parts
from aerobee.broker.features.transactions.feature import Transactions
from aerobee.broker.health.parts import Health
from aerobee.broker.members.registry import Members
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.parts import Tables
from aerobee.broker.writing.appender import Appender
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.queues import AckStyle, TopicQueues
from aerobee.broker.writing.stamps import Stamp
from aerobee.broker.writing.tick import Tick
from aerobee.remoting.clocks import steady_clock_ms, wall_clock_ms
from aerobee.remoting.command import Command
from aerobee.remoting.headers.transactions import EndTransactionRequest
from aerobee.remoting.message.properties import join_properties
from aerobee.remoting.net.routes import Request
from aerobee.storage.settings import SYNC_FLUSH, StoreSettings

STEPS = 40
LIVES = 4
HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])


def decision(body: bytes) -> int:
    """What the producer decides about a message."""
    return ROLLBACK if body.endswith(b"r") else COMMIT


class Life:
    """One run of the feature over a store, as a broker makes it."""

    def __init__(self, root: Path, settings: StoreSettings, files: ForgetfulFiles) -> None:
        live = Live(small_settings(root / "tables", transaction_time_out=600_000))
        self.store = store = opened(settings, files)
        tick = Tick(asyncio.get_running_loop(), store)
        queues = TopicQueues(store, AckStyle("r", False, HOST.hex().upper()))
        self.writing = Writing(store, queues, tick, Appender(store, tick), HOST)
        self.tables = Tables.load(live)
        members = Members(lambda group, told: None, steady_clock_ms)
        cold = Cold(live, store, tick.commit_log)
        parts = Parts(
            live, self.writing, cold, Health(store), members, self.tables
        )  # fmt: skip
        self.feature = Transactions(parts)

    def begin(self, body: bytes) -> None:
        """Store a half message as the checked path does."""
        pairs = {"UNIQ_KEY": body.hex(), "TRAN_MSG": "true", "PGROUP": "pg"}
        assert self.feature.placer is not None
        place = self.feature.placer.elsewhere(pairs, "T", 0, wall_clock_ms())
        assert place is not None
        stamp = Stamp(HOST, HOST).at(wall_clock_ms())
        message = (0, body, join_properties(pairs).encode(), place.tags_code)
        self.writing.appender.append(place.queue, 0, wall_clock_ms(), stamp, [message])
        place.appended()
        self.store.commit_log.commit()

    async def end(self, body: bytes) -> None:
        """Say what is decided, as a one-way request; the turn ends at once or later."""
        for half in self.feature.halves:
            if half.key.unique_key == body.hex():
                header = EndTransactionRequest(
                    producer_group="pg",
                    tran_state_table_offset=half.offset,
                    commit_log_offset=half.position,
                    commit_or_rollback=decision(body),
                )
                request: Request[Any] = Request(header, Command(code=37, flag=2), cast("Any", None))
                self.feature.endings.end(None, request)
                return

    def die(self) -> None:
        """End as a killed process does: no callback of it comes any more."""
        self.feature.checks.stop()
        self.feature._progress.stop()
        if (call := self.feature._ops._call) is not None:
            call.cancel()
        self.writing.tick.turn_ends = None
        self.store.abandon()

    def open_bodies(self) -> set[bytes]:
        """What is to be asked about."""
        return {bytes.fromhex(half.key.unique_key) for half in self.feature.halves}


@pytest.mark.parametrize("seed", range(12))
async def test_each_transaction_ends_once_over_power_cuts(tmp_path: Path, seed: int) -> None:
    """What the disk had of half messages is committed in the end, however often power fails."""
    chance = random.Random(seed)
    settings = small(
        tmp_path / "store", segment_bytes=64 * 1024, queue_file_entries=500, flush_mode=SYNC_FLUSH
    )
    files = ForgetfulFiles()
    safe: set[bytes] = set()  # half messages that the disk has
    number = 0
    for _ in range(LIVES):
        life = Life(tmp_path, settings, files)
        await life.feature.start()
        begun: set[bytes] = set()
        for _ in range(STEPS):
            step = chance.random()
            if step < 0.45:
                number += 1
                body = b"%d%c" % (number, chance.choice(b"ccr"))
                life.begin(body)
                begun.add(body)
            elif step < 0.85 and (known := sorted(life.open_bodies())):
                await life.end(chance.choice(known))
                if chance.random() < 0.7:
                    await asyncio.sleep(0.002)  # the turn ends, with its op message
                else:
                    life.store.commit_log.commit()
            elif step < 0.93:
                assert life.store.flusher.flush_all(10)
                safe |= begun
                begun.clear()
            life.feature._progress.settle()
            life.tables.offsets.file.flush_now()
            feature = life.feature
            feature._metrics.update(feature.halves.by_topic, feature._progress.ended_before)
            feature._metrics.file.flush_now()
        life.die()
        files = files.crash(tmp_path / "store", chance)
    life = Life(tmp_path, settings, files)
    await life.feature.start()
    for body in sorted(life.open_bodies()):
        await life.end(body)
    await asyncio.sleep(0.01)
    found = Counter(bodies(life.store, "T"))
    await life.feature.stop()
    life.store.close()
    assert set(found.values()) <= {1}, "some came twice"
    assert not [body for body in found if decision(body) == ROLLBACK]
    assert {body for body in safe if decision(body) == COMMIT} <= found.keys()
