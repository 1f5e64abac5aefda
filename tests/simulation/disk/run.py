"""One run from its seed to its verdict: lives of a store on one machine, and what befalls both."""

import contextlib
import logging
import struct
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final
from unittest.mock import patch

from aerobee.storage.layout import BOOT_NOTE, COMMIT_LOG
from aerobee.storage.recovery.recovery import FLUSHED, SYNCED
from aerobee.storage.settings import StoreSettings
from aerobee.storage.upkeep import backends, queue_rounds
from simulation.disk.book import Book
from simulation.disk.clock import Clock
from simulation.disk.environment import virtual
from simulation.disk.life import End, Life
from simulation.disk.machine import Died, Machine
from simulation.disk.oracles import Kind, Oracle, Violated
from simulation.disk.plan import Plan, Trouble, draw

MERELY_DIED: Final = (SYNCED, FLUSHED)  # proofs of what no machine or disk has disturbed
LOG_BEGIN: Final = "log begin"
INTERRUPTED_JOBS: Final = 0.3


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended. Two runs of one seed have the same `digest`."""

    seed: int
    plan: Plan
    violation: str
    kind: Kind | None
    digest: str
    operations: int
    acknowledged: int
    proofs: Counter[str]
    ends: Counter[str]


class Run:
    """A machine, and the lives of the processes that have its store open."""

    def __init__(self, seed: int, folder: Path, echo: Callable[[str], object] | None) -> None:
        self.plan = draw(seed)
        self.dice = Random(f"lives {seed}")
        self.clock = Clock()
        root = folder / "store"
        self.machine = Machine(root, seed, self.clock, echo)
        self.machine.journaled = self.plan.journaled
        self.machine.allocates = self.plan.allocates
        self.machine.interrupted_jobs = INTERRUPTED_JOBS
        self.settings = StoreSettings(root=root, **self.plan.settings())
        self.book = Book(self.settings.log_dir, self.settings.segment_bytes)
        self.oracle = Oracle(self.machine, self.book)
        self.proofs: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.acknowledged = 0
        self._doubted = False  # a sync of the log has failed, and no start has mended that
        self._noted_anew = False  # …, but one has noted all that it read, and died
        self._last: Life | None = None
        self._last_end: End | None = None
        self._power_lost = self._rebooted = False
        self._disturbed = False  # what lies at rest is not as it was left
        self._proves_nothing = False  # a start may have to read the whole log

    def run(self) -> None:
        """Live as many lives as planned, and one to look at what is left."""
        for number in range(self.plan.lives):
            self._live(steps=self.dice.randint(*self.plan.steps), last=False)
            self._between(number)
        self.machine.weather.clear_up()
        self.machine.fuse = -1
        self._live(steps=0, last=True)

    def _live(self, *, steps: int, last: bool) -> None:
        """Live one life, however it ends."""
        machine, dice = self.machine, self.dice
        begin, logs = self._log_begin(), self.oracle.logs()
        self._proves_nothing = self.oracle.proves_nothing(begin)
        if not last and dice.random() < self.plan.death_in_recovery:
            machine.fuse = dice.randint(0, 120)
        machine.note(f"life, proof files: {sorted(machine.top.entries)}")
        if not self._disturbed:
            self.oracle.check_progress(begin)
        noted = machine.top.entries.get(BOOT_NOTE)
        life = Life(machine, self.settings, self.book, self.oracle, dice)
        end = End.DIED
        try:
            if not life.open():
                end = End.REFUSED
                self._check_refusal(life, last=last)
            else:
                machine.note(f"recovered {life.store.recovered.proof}")
                self.proofs[life.store.recovered.proof.split(" (")[0]] += 1
                self._check_start(life, begin, logs)
                end = self._serve(life, steps, last=last)
        except Died:
            pass
        except (OSError, AssertionError, IndexError, ValueError, struct.error) as error:
            raise Violated(Kind.ERROR, "".join(traceback.format_exception(error)[-9:])) from error
        finally:
            machine.fuse = -1
            life.bury()
        self.ends[end] += 1
        self._last, self._last_end = life, end
        if life.serving and not life.store.read_only:
            self._doubted = False
        self._doubted |= life.log_failed
        # A start that dies after it has made the note of this boot anew has mended before: it wrote
        # what was doubted once more, and synced it. So the note may be believed; yet nobody has
        # looked which messages were lost until then, so that the doubt stays for those.
        self._noted_anew |= machine.top.entries.get(BOOT_NOTE) not in (None, noted)
        self._noted_anew &= not life.log_failed
        self._rebooted = False
        if life.serving:
            self._power_lost = self._disturbed = False

    def _serve(self, life: Life, steps: int, *, last: bool) -> End:
        dice, machine = self.dice, self.machine
        if not last and dice.random() < self.plan.death_anywhere:
            machine.fuse = dice.randint(0, 40 * max(1, steps))
        for _ in range(steps):
            self._step(life)
        if last or dice.random() < self.plan.settles:
            life.settle()
        if last or dice.random() < self.plan.closes:
            if not last and Trouble.SYNC_FAILS in self.plan.troubles and dice.random() < 0.7:
                self._send(life)
                machine.weather.fail_syncs(dice.choice((1, 200, 200)), "consumequeue")
            life.close()
            if not self.oracle.aborted():
                self.oracle.check_progress(life.store.segments.begin, durable=True)
            return End.CLOSED
        return End.DIED

    def _step(self, life: Life) -> None:
        dice, plan = self.dice, self.plan
        if dice.random() < plan.trouble_rate:
            self._trouble()
        if dice.random() < 0.7:
            self._send(life)
        if dice.random() < 0.02 and plan.deletes:
            life.delete(dice.choice(plan.queues).topic)
        if dice.random() < 0.4:
            life.tick()
        if dice.random() < 0.05:
            self.machine.write_back()
        life.wait(dice.choice((0.0, 0.001, 0.02, 0.3, 1.1)))

    def _send(self, life: Life) -> None:
        """Append messages to some queues, and commit them."""
        dice, plan = self.dice, self.plan
        keys = [dice.choice(plan.queues) for _ in range(dice.randint(1, plan.burst))]
        for key in keys:
            self.book.create(key.topic)
        life.append(keys)
        if dice.random() < 0.2:
            life.tick()  # between an append and its commit, as connections may have it
        life.commit()

    # --- troubles ---

    def _trouble(self) -> None:
        dice, weather, now_s = self.dice, self.machine.weather, self.clock.now_s
        if not self.plan.troubles:
            return
        trouble = dice.choice(self.plan.troubles)
        self.machine.note(f"trouble: {trouble}")
        match trouble:
            case Trouble.SYNC_FAILS:
                where = dice.choice(("", COMMIT_LOG, "consumequeue", "consumequeue"))
                weather.fail_syncs(dice.choice((1, 1, 2, 5)), where)
            case Trouble.UNHEARD:
                where = dice.choice((COMMIT_LOG, COMMIT_LOG, "consumequeue"))
                weather.fail_syncs(dice.choice((1, 1, 3)), where, unheard=True)
            case Trouble.NO_SPACE:
                weather.no_space_until_s = now_s + dice.uniform(0.1, 8)
            case Trouble.WRITES_FAIL:
                weather.errors_until_s = now_s + dice.uniform(0.01, 2)
            case Trouble.READS_FAIL:
                weather.reads_until_s = now_s + dice.uniform(0.01, 2)
            case Trouble.SLOW:
                weather.slow_until_s = now_s + dice.uniform(0.5, 15)
            case Trouble.FILLS:
                weather.used_ratio = dice.choice((0.5, 0.8, 0.95))
            case Trouble.EVICTION:
                self.machine.evict()
            case Trouble.FLIP:
                pass  # at rest, see _between

    def _between(self, number: int) -> None:
        """Let something befall the machine while no process runs."""
        dice, machine = self.dice, self.machine
        self.clock.advance(dice.choice((0.0, 0.01, 3.0)))
        machine.evict()
        if dice.random() < self.plan.power_losses:
            machine.lose_power()
            self._power_lost = self._rebooted = True
        if Trouble.FLIP in self.plan.troubles and dice.random() < 0.3:
            self._flip()
        if dice.random() < 0.5:
            machine.weather.clear_up()
        machine.note(f"end of life {number}")

    def _flip(self) -> None:
        """Flip a bit of a log file, in a record or elsewhere."""
        logs = self.oracle.logs()
        sound = [each for each in self.book.alive() if self.oracle.sound(each, logs)]
        if not sound:
            return
        sent = self.dice.choice(sound)
        name, at = self.book.file_of(sent)
        path = self.settings.log_dir / name
        self.machine.flip(path, at + self.dice.randrange(sent.size), self.dice.randrange(8))
        self.book.flipped.add(sent.position)
        self._disturbed = True

    # --- judgement ---

    def _log_begin(self) -> int:
        return min((int(name) for name in self.oracle.logs() if name.isdigit()), default=0)

    def _check_start(self, life: Life, begin: int, logs: dict[str, bytes]) -> None:
        """Judge how a store has started: what it found, and by which proof."""
        last, proof = self._last, life.store.recovered.proof
        if last is not None:
            self.acknowledged = max(
                self.acknowledged, sum(each.acknowledged for each in self.book.messages.values())
            )
            self.oracle.check_promises(logs, begin, died=not self._power_lost and not self._doubted)
            if life.store.recovered.noted and self._rebooted:
                raise Violated(Kind.PROOF, "believes a note that may not be believed")
            allowed = (*MERELY_DIED, LOG_BEGIN) if self._proves_nothing else MERELY_DIED
            if self._was_mere_death(last) and proof not in allowed:
                what = f"started by {proof!r} after a mere death: {life.store.recovered}"
                raise Violated(Kind.PROOF, what)
        with self.machine.looked_at():
            self.oracle.check_recovered(life.store, logs)
            self.oracle.check_verified(life.store)

    def _was_mere_death(self, last: Life) -> bool:
        """Whether a process that had begun to write died, and nothing else ever happened."""
        return (
            self._last_end is End.DIED
            and last.serving
            and last.store._writing.done
            and not self.plan.deletes  # of the only topic: then nothing proves anything
            and not self._power_lost
            and not self._disturbed
            and not self.machine.weather.failed
        )

    def _check_refusal(self, life: Life, *, last: bool) -> None:
        if last or not life.has_failures:
            raise Violated(Kind.STUCK, f"does not start: {life.refusal}")


@contextlib.contextmanager
def _rounds(plan: Plan) -> Iterator[None]:
    """Let few queues make a round of many slices, and few files be many."""
    with (
        patch.object(queue_rounds, "SLICE_S", plan.slice_s),
        patch.object(queue_rounds, "FILES_ONE_BY_ONE", plan.files_one_by_one),
    ):
        yield


@contextlib.contextmanager
def _slots(count: int) -> Iterator[None]:
    """Give the kernel's queue fewer slots than production asks for: few files fill it, too."""
    with (
        patch.object(backends, "SLOTS", count),
        patch.object(backends, "LOG_SLOTS", max(1, count // 8)),
    ):
        yield


def simulate(seed: int, folder: Path, echo: Callable[[str], object] | None = None) -> Verdict:
    """Run a seed; its files go into `folder`, `echo` gets every line of the trace."""
    run = Run(seed, folder, echo)
    violation: Violated | None = None
    logger = logging.getLogger("aerobee")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    with virtual(run.clock), _slots(run.plan.slots), _rounds(run.plan):
        try:
            run.run()
        except Violated as error:
            violation = error
        finally:
            run.machine.close()
            logger.setLevel(level)
    return Verdict(
        seed=seed,
        plan=run.plan,
        violation=str(violation) if violation else "",
        kind=violation.kind if violation else None,
        digest=run.machine.digest(),
        operations=run.machine.operations,
        acknowledged=run.acknowledged,
        proofs=run.proofs,
        ends=run.ends,
    )
