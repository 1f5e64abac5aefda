"""One life of a process that has a store open: it starts, serves, and ends in some way."""

import contextlib
import struct
from enum import StrEnum
from random import Random
from typing import Final

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.record import decode_record, host_bytes
from aerobee.storage.disk.lock import _held
from aerobee.storage.errors import LogBusy, LogFull, LogUnavailable, StoreError, StoreReadOnly
from aerobee.storage.log.segment import Segment
from aerobee.storage.settings import StoreSettings
from aerobee.storage.store import MessageStore
from simulation.disk.book import Book, Key, Sent
from simulation.disk.door import Door
from simulation.disk.kernel import SimulatedKernel
from simulation.disk.machine import Died, Machine
from simulation.disk.oracles import Kind, Oracle, Violated

REFUSALS: Final = (LogBusy, LogFull, LogUnavailable)
SIZES: Final = (0, 10, 200, 900, 3000)
SETTLED_WITHIN_S: Final = 60.0


class End(StrEnum):
    """How a life has ended."""

    CLOSED = "closed"
    DIED = "died"
    REFUSED = "refused to start"


class Life:
    """Drives a store as a broker does: append, commit, ask for a sync, take what completes."""

    def __init__(
        self, machine: Machine, settings: StoreSettings, book: Book, oracle: Oracle, dice: Random
    ) -> None:
        self.machine = machine
        self.settings = settings
        self.book = book
        self.oracle = oracle
        self.dice = dice
        self.door = Door(machine)
        self.kernel = SimulatedKernel(self.door)
        self.serving = False
        self.log_failed = False  # a sync of the log did
        self._number = 0
        self._pending: list[Sent] = []
        self._failures = len(machine.weather.failed)
        self.store = MessageStore(settings, self.door)
        self.store.allocator.drop_cache = self._drop_cache  # type: ignore[method-assign]

    # --- start and end ---

    def open(self) -> bool:
        """Open the store; False if it says that it cannot."""
        try:
            self.store.open()
        except (StoreError, OSError) as error:
            self.machine.note(f"refused: {type(error).__name__}")
            self.refusal = error
            return False
        if self.store.read_only:  # it gives what it can, mends nothing, and wants to be restarted
            self.machine.note("open for reading only")
            self.refusal = OSError("open for reading only")
            self.store.abandon()
            return False
        self.serving = True
        return True

    def close(self) -> None:
        """Stop as an operator would."""
        self.machine.note("close")
        self._take_flushed()
        self.store.close()

    def bury(self) -> None:
        """Let go of what a dead process had, and remember what it had promised."""
        self.door.dead = True
        if self.serving:
            self._take_flushed()
            self._enter(self._pending, self.oracle.logs())  # of a commit that was not told of
        with contextlib.suppress(Died):
            if self.serving:  # else it has let go by itself
                self.store.abandon()
        _held.discard(self.settings.root.resolve())
        self.kernel.bury()
        self.door.bury()
        self.log_failed |= any(each.startswith("sync commitlog") for each in self._failed_syncs())

    # --- what it does ---

    def append(self, keys: list[Key]) -> None:
        """Append messages; what is refused was never sent."""
        for key in keys:
            if self.store.commit_log.refusal:
                return
            self._number += 1
            body = b"%d.%d:" % (self.machine.boot, self.machine.operations * 1000 + self._number)
            body += self.dice.randbytes(self.dice.choice(SIZES))
            queue = self.store.queue(*key)
            stamp = int(self.machine.clock.time() * 1000)
            hosts = host_bytes("10.0.0.7", 4000) + struct.pack(">q", stamp)
            hosts += host_bytes("10.0.0.1", 10911) + struct.pack(">iq", 0, 0)
            log = self.store.commit_log
            try:
                position = log.append(queue, 0, 0, stamp, hosts, body, b"", 0)
            except REFUSALS as error:
                self.machine.note(f"append refused: {type(error).__name__}")
                continue
            life = self.book.lives[key.topic]
            sent = Sent(key, life, queue.max_offset - 1, position, body)
            sent.size = log.position - position
            self._pending.append(sent)

    def commit(self) -> None:
        """Commit what was appended, and answer its senders as the flush mode has it."""
        log = self.store.commit_log
        try:
            log.commit()
        except LogUnavailable:
            self.machine.note("commit failed")
        pending, self._pending = self._pending, []
        entered = self._enter(pending, self.oracle.logs())
        if log.losses:
            return  # nothing was said of these: of some, a roll may have stored a part
        if entered != len(pending):
            raise Violated(Kind.WRONG, "what was committed is not in the log")
        if not self.settings.sync_flush:
            for sent in pending:
                sent.acknowledged = True
        elif pending:
            self.store.flusher.request(log.committed, lambda ok: self._answered(pending, ok))

    def _enter(self, pending: list[Sent], logs: dict[str, bytes]) -> int:
        """Note what the log has of some messages, return how many that are."""
        entered = 0
        for sent in pending:
            data = self.oracle.bytes_at(sent, logs)
            if len(data) != sent.size or not is_record_of(sent, data):
                continue
            sent.record = data
            self.book.enter(sent)
            entered += 1
        return entered

    def _answered(self, answered: list[Sent], ok: bool) -> None:
        if ok and not self.door.dead:
            for sent in answered:
                sent.acknowledged = True
                if sent.end > self.store.commit_log.flushed_position:
                    raise Violated(Kind.PROOF, f"{sent} is acknowledged before it is flushed")

    def _drop_cache(self, segment: Segment, at: int, until: int) -> bool:
        """Do what the helper process does, which there is none of."""
        with contextlib.suppress(OSError):
            fd = self.door.open(segment.path, write=False)
            self.door.drop_cache(fd, at, until - at)
            self.door.close(fd)
        return True

    def take_completions(self) -> None:
        """Hear what the disk reports."""
        self.store.poll()
        self._take_flushed()

    def tick(self) -> None:
        """Do what a broker does twice a second."""
        self.store.tick()
        self.book.aged = max(self.book.aged, self.store.commit_log.begin)
        self.log_failed |= any(each.startswith("sync commitlog") for each in self._failed_syncs())

    def wait(self, seconds: float) -> None:
        """Let time pass, and hear what happens meanwhile."""
        self.machine.clock.advance(seconds)
        self.take_completions()

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self.machine.note(f"delete {topic}")
        self.commit()
        try:
            self.store.delete_topic(topic)
        except (OSError, StoreReadOnly):
            return
        finally:
            self.book.delete(topic)

    def settle(self) -> None:
        """On a disk that is well, everything gets durable and noted within a minute."""
        self.machine.note("settle")
        weather, store = self.machine.weather, self.store
        refused_before = store.commit_log.refusal
        weather.clear_up()
        self.commit()
        clock = self.machine.clock
        ends_s = clock.now_s + SETTLED_WITHIN_S
        while clock.now_s < ends_s:
            self.tick()
            self.wait(0.1)
            if self._settled():
                return
        lost = store.flusher._rounds.lost  # memory has forgotten what a failed sync left there
        if store.read_only or self.log_failed or self._failed_writes() or lost:
            return  # it says so, and wants to be restarted
        log = store.commit_log
        raise Violated(
            Kind.STUCK,
            f"{SETTLED_WITHIN_S:.0f} s of fair weather, and: {log.committed} of {log.position}"
            f" committed, {log.flushed_position} flushed, progress {self.oracle.progress()},"
            f" refused {refused_before!r}, then {log.refusal!r}",
        )

    def _settled(self) -> bool:
        log, progress = self.store.commit_log, self.oracle.progress()
        empty = self._number == 0 or log.position == 0  # also where all was refused: none to note
        return (
            log.writable
            and log.flushed_position == log.position == log.committed
            and not self.store.flusher.busy
            and (empty or progress is not None)
            and (progress is None or progress.position == log.position)
        )

    @property
    def has_failures(self) -> bool:
        """Whether the disk has refused anything in this life."""
        return len(self.machine.weather.failed) > self._failures

    def _failed_syncs(self) -> list[str]:
        failed = self.machine.weather.failed[self._failures :]
        return [each for each in failed if each.startswith("sync ")]

    def _failed_writes(self) -> bool:
        failed = self.machine.weather.failed[self._failures :]
        return any(each.startswith(("write commitlog", "allocate commitlog")) for each in failed)

    def _take_flushed(self) -> None:
        log = self.store.commit_log
        self.log_failed |= any(each.startswith("sync commitlog") for each in self._failed_syncs())
        if not self.store.read_only:
            self.oracle.promise(log.flushed_position, log.begin)


def is_record_of(sent: Sent, data: bytes) -> bool:
    """Whether bytes of the log are the record of a message."""
    try:
        record = decode_record(data)
    except CorruptRecord:
        return False
    found = (record.topic, record.queue_id, record.queue_offset, record.body)
    return found == (*sent.key, sent.offset, sent.body)
