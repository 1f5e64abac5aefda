"""A producer of transactions: it ends some itself, leaves others to checks, dies and comes back."""

import asyncio
from random import Random
from typing import Final

from aerobee.client import (
    HalfMessage,
    Message,
    ReceivedMessage,
    TransactionListener,
    TransactionProducer,
    TransactionSettings,
    TransactionState,
)
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.net.tasks import Tasks
from aerobee.remoting.words import HALF_TOPIC
from simulation.clients import ClientNode
from simulation.judge.attempts import Place
from simulation.producing.waits import Waits

LIFE_S: Final = 15.0  # on average, where clients die
AWAY_S: Final = (0.5, 8.0)
WORK_S: Final = (0.0, 0.5)  # of the local transaction
ROLLED_BACK_SHARE: Final = 0.4
UNTOLD_SHARE: Final = 0.3


class Decisions(TransactionListener):
    """Answers checks by what was decided, which outlives the producer's processes."""

    def __init__(self, waits: Waits) -> None:
        self._waits = waits

    async def check(self, message: ReceivedMessage) -> TransactionState:
        """Say how it ended."""
        commits = self._waits.commits[bytes(message.body)]
        return TransactionState.COMMIT if commits else TransactionState.ROLLBACK


class TransactionNode(ClientNode):
    """Begins transactions `gap_s` apart, and notes what brokers took, and what becomes of it."""

    topics: tuple[str, ...]
    gap_s: float
    dies = False
    _begun = 0
    _sending = 0
    _stopping = False

    def start(self) -> None:
        """Begin a life."""
        self._dice = Random(f"transactions of {self.name} {self.world.seed} {self.lives}")
        self._sending = 0
        self.begin_life().spawn(self._produce(), "transactions")

    async def live(self, ends_s: float) -> None:
        """Die now and then, and come back."""
        loop = self.world.loop
        dice = Random(f"lives of {self.name} {self.world.seed}")
        while self.dies and (lasts_s := dice.expovariate(1 / LIFE_S)) < ends_s - loop.time():
            await asyncio.sleep(lasts_s)
            process = self.end_life()
            assert process is not None
            self.world.kill(process, silent_s=dice.choice((0.0, 0.0, 10.0)))
            await asyncio.sleep(dice.uniform(*AWAY_S))
            self.start()

    async def finish(self, timeout_s: float) -> bool:
        """Begin no more, but answer checks; True when every half message has its outcome."""
        self._stopping = True
        return await self.world.until(lambda: not self._sending, timeout_s)

    async def _produce(self) -> None:
        producer = TransactionProducer(
            self.name,
            namesrv=self.namesrv,
            listener=Decisions(self.ledger.waits),
            settings=TransactionSettings(topics=self.topics),
            client=self.settings(),
        )
        await producer.start()
        sends = Tasks()
        while not self._stopping:
            await asyncio.sleep(self._dice.expovariate(1 / self.gap_s))
            sends.start(self._transact(producer, self._dice.choice(self.topics)))

    async def _transact(self, producer: TransactionProducer, topic: str) -> None:
        """Begin a transaction, work, and end it, or leave that to the broker's question."""
        self._begun += 1
        body = b"%s-half-%d" % (self.name.encode(), self._begun)
        waits, dice = self.ledger.waits, self._dice
        waits.topics[body] = topic
        waits.commits[body] = commits = dice.random() >= ROLLED_BACK_SHARE
        untold, work_s = dice.random() < UNTOLD_SHARE, dice.uniform(*WORK_S)
        self._sending += 1
        began = False
        try:
            async with producer.transaction(Message(topic, body)) as half:
                began = True
                self._note(half, body, topic, commits=commits)
                state = TransactionState.COMMIT if commits else TransactionState.ROLLBACK
                half.decide(TransactionState.UNKNOWN if untold else state)
                await asyncio.sleep(work_s)
        except AerobeeError as error:
            self.world.trace.note(f"{self.name} {began=}: {type(error).__name__}")
        finally:
            self._sending -= 1

    def _note(self, half: HalfMessage, body: bytes, topic: str, *, commits: bool) -> None:
        place = Place(HALF_TOPIC, half.result.queue.broker_name, 0)
        if commits:
            self.ledger.wait(body, topic, place, half.result.queue_offset)
