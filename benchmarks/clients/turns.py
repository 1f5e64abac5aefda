"""Measures clients in turn, A B C A B C, each with its own server; the other servers are paused."""

import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from support.interop.processes import ServerFailed

from benchmarks.clients import servers
from benchmarks.clients.figures import Measured, Report
from benchmarks.clients.program import Answered, ClientProgram, Order
from benchmarks.clients.table import SERVERS, Client, Load, keeper
from benchmarks.generator import LoadFailed
from benchmarks.reports.memory import WarmMemory
from benchmarks.reports.rounds import WARM_WINDOWS, is_flat
from benchmarks.targets.brokers import BrokerTarget
from benchmarks.targets.target import Cpus, Target

MANY_MESSAGES: Final = 300_000
AHEAD_MESSAGES: Final = 100_000
SLOW_SHARE: Final = 5  # slow clients consume so many times fewer
POOL_BYTES: Final = 0x10000 + 1024
NUMBERS_EACH: Final = 1 << 26  # kept for one order, more than it can send
WINDOWS_MAX: Final = 6
WINDOWS_JVM_MAX: Final = 12
WARM_SHARE: Final = 2 / 3  # of the seconds of a run, for windows before it
ATTEMPTS: Final = 2  # of one run
FEW_MESSAGES: Final = 1_000
QUICK_SHARE: Final = 10

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured, and of whom."""

    cpus: Cpus
    directory: Path
    rounds: int
    seconds: float  # of a run that sends
    clients: Sequence[Client]
    warm_bytes: int = 0  # given up in each round of a load that sends
    is_quick: bool = False

    def messages(self, load: Load, client: Client) -> int:
        """Return how many messages are consumed, 0 of a load that sends."""
        if load.sends:
            return 0
        many = AHEAD_MESSAGES if load.name == "ahead" else MANY_MESSAGES
        many = many // SLOW_SHARE if client.is_slow and load.name != "ahead" else many
        return many // QUICK_SHARE if self.is_quick else many

    def windows_max(self, client: Client) -> int:
        """Return how many windows a client may take until it is warm."""
        if self.is_quick:
            return 1
        warms_up = client.warms_up or client.server.warms_up
        return WINDOWS_JVM_MAX if warms_up else WINDOWS_MAX


@dataclass(slots=True)
class Field:
    """What is up during a run: a server of each kind, and a process of each client."""

    plan: Plan
    targets: dict[type[Target], Target] = field(default_factory=dict)
    programs: dict[str, ClientProgram] = field(default_factory=dict)
    filled: dict[tuple[type[Target], int], str] = field(default_factory=dict)
    """By server and number of messages the topic that holds them."""
    orders: int = 0

    def program(self, client: Client) -> ClientProgram:
        """Return a client's process, started when it is first asked for."""
        if client.name not in self.programs:
            words = [*self.plan.cpus.for_generator(), *client.program.command()]
            words += [servers.address(self.targets[client.server]), str(self._pool())]
            log_file = self.plan.directory / f"{client.slug}.log"
            self.programs[client.name] = ClientProgram(words, client.program.paths(), log_file)
        return self.programs[client.name]

    def end(self, client: Client) -> None:
        """End a client's process; the next one who asks has a new one."""
        if client.name in self.programs:
            self.programs.pop(client.name).stop()

    def order(
        self, client: Client, way: str, topic: str, count: int, seconds: float = 0.0
    ) -> Answered:
        """Let a client do something; its server has to be awake."""
        self.orders += 1
        group, first = f"group-{self.orders}", self.orders * NUMBERS_EACH
        order = Order(way, topic, group, seconds, count, first)
        return self.program(client).obey(order, self.targets[client.server].sample)

    def fill(self, client: Client, count: int) -> str:
        """Return a topic that holds so many messages, numbered from 0; made by who sends fast."""
        if (client.server, count) not in self.filled:
            self.orders += 1
            target, topic = self.targets[client.server], f"filled-{count}-{self.orders}"
            filling = keeper(client.server)
            self.prepare(client, topic)
            order = Order("send", topic, "filling", 0.0, count, 0)
            answer = self.program(filling).obey(order, target.sample)
            if isinstance(target, BrokerTarget):
                servers.expect_stored(target, topic, answer.acked, answer.acked)
            self.filled[client.server, count] = topic
        return self.filled[client.server, count]

    def prepare(self, client: Client, topic: str) -> None:
        """Make a topic, unless it is there."""
        target = self.targets[client.server]
        if isinstance(target, BrokerTarget):
            servers.prepare(target, topic)
        else:
            self.order(keeper(client.server), "prepare", topic, 0)

    def _pool(self) -> Path:
        pool = self.plan.directory / "pool"
        if not pool.exists():
            pool.write_bytes(bytes(random.Random(POOL_BYTES).choices(range(1, 256), k=POOL_BYTES)))
        return pool


@contextmanager
def running(plan: Plan, report: Report, note: Note) -> Iterator[Field]:
    """Start a server of each kind and pause it; end everything at the end.

    A server that does not come up takes its clients out of the run.
    """
    with ExitStack() as stack:
        here = Field(plan)
        for kind in dict.fromkeys(client.server for client in plan.clients):
            note(f"{SERVERS[kind]} starts")
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(dir=plan.directory, ignore_cleanup_errors=True)
            )
            target = servers.make(kind, Path(folder) / "server", plan.cpus)
            stack.callback(target.stop)
            try:
                target.start()
            except ServerFailed as error:
                report.failures.append(f"{SERVERS[kind]}: {error}")
                for client in plan.clients:
                    if client.server is kind:
                        report.missing[client.name] = "its server does not start"
                continue
            report.versions[SERVERS[kind]] = target.version()
            target.pause()
            here.targets[kind] = target
        try:
            yield here
        finally:
            for program in here.programs.values():
                program.stop()


def measure_load(here: Field, load: Load, report: Report, note: Note) -> None:
    """Measure one load: everybody warms up, then the rounds.

    A client with a wrong result is out of this load, and that is told.
    """
    taking_part = [
        client
        for client in here.plan.clients
        if load.name in client.settings and client.name not in report.missing
    ]
    once = load.name == "ahead"
    for client in list(taking_part):
        note(f"{load.title}: {client.name} warms up")
        try:
            with _awake(here, client):
                if not once:
                    _warm_up(here, load, client, report)
        except (LoadFailed, ServerFailed, OSError) as error:
            _out(here, load, client, report, error)
            taking_part.remove(client)
    for number in range(1 if once else here.plan.rounds):
        for client in list(taking_part):
            note(f"{load.title}: {client.name}, {number + 1} of {here.plan.rounds}")
            try:
                with _awake(here, client), WarmMemory(_warm_bytes(here.plan, load)).flowing():
                    measured = _attempt(here, load, client, here.plan.seconds)
            except (LoadFailed, ServerFailed, OSError) as error:
                _out(here, load, client, report, error)
                taking_part.remove(client)
                continue
            report.cells.setdefault(load.name, {}).setdefault(client.name, []).append(measured)


def _warm_bytes(plan: Plan, load: Load) -> int:
    return plan.warm_bytes if load.sends and load.figure == "per_second" else 0


@contextmanager
def _awake(here: Field, client: Client) -> Iterator[None]:
    target = here.targets[client.server]
    target.resume()
    try:
        yield
    finally:
        target.pause()


def _out(here: Field, load: Load, client: Client, report: Report, error: Exception) -> None:
    report.cells.get(load.name, {}).pop(client.name, None)
    report.failures.append(f"{load.name}, {client.name}: {error}")
    here.end(client)


def _warm_up(here: Field, load: Load, client: Client, report: Report) -> None:
    """Run the load until the CPU per message is flat, the client's and that of a server of Java."""
    windows = report.warmups.setdefault((load.name, client.name), [])
    is_warm = False
    while len(windows) < here.plan.windows_max(client) and not is_warm:
        windows.append(_attempt(here, load, client, WARM_SHARE * here.plan.seconds))
        is_warm = is_flat([each.cpu_us for each in windows])
        if client.server.warms_up:
            is_warm &= is_flat([each.server_us for each in windows])
    report.flat[load.name, client.name] = is_warm


def _attempt(here: Field, load: Load, client: Client, seconds: float) -> Measured:
    """Run once, and once more in a process of its own where that fails."""
    for _ in range(ATTEMPTS - 1):
        try:
            return _run(here, load, client, seconds)
        except LoadFailed:
            here.end(client)
    return _run(here, load, client, seconds)


def _run(here: Field, load: Load, client: Client, seconds: float) -> Measured:
    count = here.plan.messages(load, client)
    target = here.targets[client.server]
    if count:
        topic = here.fill(client, count)
        if load.name == "ahead":  # what a client takes by itself is there before
            here.end(client)
            here.order(client, load.name, here.fill(client, FEW_MESSAGES), FEW_MESSAGES)
        answer = here.order(client, load.name, topic, count)
    else:
        topic = f"{load.name}-{client.slug}"
        if load.name == "trip":
            topic += f"-{here.orders}"  # its consumer reads from the begin
        here.prepare(client, topic)
        before = servers.stored(target, topic) if isinstance(target, BrokerTarget) else 0
        answer = here.order(client, load.name, topic, 0, seconds)
        if isinstance(target, BrokerTarget):
            most = before + answer.acked_most
            servers.expect_stored(target, topic, before + answer.acked, most)
    if answer.measured is None:
        raise LoadFailed(f"{load.name}: {client.name} measured nothing")
    return answer.measured


def warm_lines(report: Report) -> Iterator[str]:
    """Yield what everybody's windows were, and whether the last ones are alike."""
    for (load, name), windows in report.warmups.items():
        state = "flat" if report.flat.get((load, name)) else "NOT FLAT"
        shown = " ".join(f"{each.cpu_us:.2f}" for each in windows)
        needed = f" (of {WARM_WINDOWS} that are alike)" if len(windows) < WARM_WINDOWS else ""
        yield f"{load}: {name} {state} after {len(windows)} windows{needed}, CPU us/msg {shown}"
