"""Measures clients in turn against our broker: ours, the C++ client's Python binding, Java's.

    PYTHONPATH=tests python -m benchmarks.client_speed [--rounds N] [--messages N] [--keep]

`make bench` ends with it. Exits with 1 when a bar is missed.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Final

from support.interop import peers
from support.interop.aerobee_server import Aerobee
from support.interop.meeting import Meeting
from support.interop.peers import Peer, PeerFailed
from support.interop.processes import ServerFailed
from support.interop.raw_messages import create_topic, wait_for_route
from support.interop.sessions import Session
from support.interop.toolchain import BuildFailed, ToolMissing

from benchmarks.reports import machine
from benchmarks.reports.figures import Verdict
from benchmarks.reports.report import print_table
from benchmarks.targets import compiling

BODY_BYTES: Final = 1024
IN_FLIGHT: Final = 64
QUEUES: Final = 4
STEADY_RATE: Final = 1_000
STEADY_MESSAGES: Final = 3_000
WARM_MESSAGES: Final = 20_000
PROBES: Final = 64  # they reach every queue, so whoever has had them owns all of them
ATTEMPTS: Final = 2  # of one client's round
SECONDS_MAX: Final = 120.0
BLAST_SECONDS_MAX: Final = 300.0
SEND_LEAST: Final = 60_000.0
CONSUME_LEAST: Final = 100_000.0
P50_MICROS_MOST: Final = 1_000.0

OURS: Final = peers.OURS
CPP: Final = peers.CPP
CLIENTS: Final = (OURS, CPP, peers.JAVA_5_FULL_SPEED)
COLUMNS: Final = (
    "client", "send msg/s", "consume msg/s", "end to end p50 us", "p99 us", "ours / its, send",
    "consume", "ahead", "bar",
)  # fmt: skip


@dataclass(slots=True)
class Speeds:
    """One client's rounds; rates in messages per second, latencies in microseconds."""

    send: list[float] = field(default_factory=list)
    consume: list[float] = field(default_factory=list)
    p50_us: list[float] = field(default_factory=list)
    p99_us: list[float] = field(default_factory=list)

    def add(self, figures: tuple[float, ...]) -> None:
        """Take over one round's figures, in the order of the fields."""
        send, consume, p50_us, p99_us = figures
        self.send.append(send)
        self.consume.append(consume)
        self.p50_us.append(p50_us)
        self.p99_us.append(p99_us)


Results = dict[str, Speeds]


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, keep; return the exit status."""
    options = _parser().parse_args(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and stop what was started
    load_before = machine.load_average()
    results: Results = {}
    missing: dict[str, str] = {}
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[0]})  # where the servers go
    with (
        tempfile.TemporaryDirectory(prefix="clients-", ignore_cleanup_errors=True) as folder,
        Aerobee(Path(folder)) as cluster,
        Meeting(cluster) as meeting,
    ):
        os.sched_setaffinity(0, {cpus[-1]})  # where the clients go
        for number, client in product(range(options.rounds), CLIENTS):
            if str(client) in missing:
                continue
            _note(f"{client}, round {number + 1} of {options.rounds}")
            failure = _attempt(meeting, client, number, options.messages, results)
            if failure is not None:
                missing[str(client)] = failure
    os.sched_setaffinity(0, set(cpus))
    described = machine.describe()
    print("\nClients, one process each, against Aerobee's broker:\n")
    failed = [(name, *["failed"] * 4, *[""] * 4) for name in missing if name not in results]
    print_table(COLUMNS, [_row(name, results) for name in results] + failed)
    for name, why in missing.items():
        print(f"FAILED {name}: {why}")
    print(f"Noise: load average {load_before:.2f} before")
    home = compiling.BENCHMARKS if options.keep else compiling.BUILD
    print(f"kept in {_keep(home / 'results', described, results, missing)}")
    return 1 if missing or not all(verdict.met for verdict in verdicts(results)) else 0


def _attempt(
    meeting: Meeting, client: Peer, number: int, messages: int, results: Results
) -> str | None:
    """Measure one client's round, a second time if the first fails; return why that fails, too."""
    for attempt in range(ATTEMPTS):
        name = f"{str(client).replace('.', '_')}-{number}-{attempt}"
        try:
            speeds = _measure(meeting, client, name, messages)
        except (ToolMissing, BuildFailed) as error:
            return str(error)
        except (PeerFailed, ServerFailed) as error:
            failure = str(error)
            _note(f"{client} failed: {failure}")
        else:
            results.setdefault(str(client), Speeds()).add(speeds)
            return None
    return failure


def _measure(meeting: Meeting, client: Peer, name: str, messages: int) -> tuple[float, ...]:
    """Let one client send, consume what it sent, and then do both at a steady rate.

    Each of them has a topic and a group of its own. Returns both rates and both latencies.
    """
    with Session(client, meeting.cluster.namesrv, answer_s=BLAST_SECONDS_MAX) as session:
        for word in ("warm", "load", "steady"):
            create_topic(meeting.cluster.broker, f"{word}-{name}", QUEUES)
            wait_for_route(meeting.cluster.namesrv, f"{word}-{name}")
        blast(session, f"warm-{name}", WARM_MESSAGES)
        consume(session, f"warm-{name}", WARM_MESSAGES)
        sent_s = blast(session, f"load-{name}", messages)
        counted = consume(session, f"load-{name}", messages)
        steady = _steady(session, f"steady-{name}")
    rates = messages / sent_s, messages / float(counted["seconds"])
    return (*rates, float(steady["p50Micros"]), float(steady["p99Micros"]))


def blast(session: Session, topic: str, count: int, **more: object) -> float:
    """Send `count` messages with 64 in flight; return the seconds."""
    fields = {"count": count, "size": BODY_BYTES, "inflight": IN_FLIGHT}
    return float(session.ask("blast", topic=topic, **fields, **more)["seconds"])


def consume(session: Session, topic: str, count: int) -> dict[str, Any]:
    """Consume what a topic holds with a trivial handler; return what the meter says."""
    with session.open("meter", f"group-{topic}", topic, count=count, tags="*") as member:
        member.wait_until(lambda: member.counted is not None, SECONDS_MAX, f"{count} messages")
        assert member.counted is not None
        return member.counted


def _steady(session: Session, topic: str) -> dict[str, Any]:
    """Send at a steady rate to a consumer that has its queues; return what the meter says."""
    count, group = STEADY_MESSAGES, f"group-{topic}"
    with session.open("meter", group, topic, count=count, skip=PROBES, tags="*") as member:
        blast(session, topic, PROBES)
        member.wait_until(lambda: member.is_ready, SECONDS_MAX, "the messages of every queue")
        blast(session, topic, count, rate=STEADY_RATE)
        member.wait_until(lambda: member.counted is not None, SECONDS_MAX, f"{count} messages")
        assert member.counted is not None
        return member.counted


def verdicts(results: Results) -> list[Verdict]:
    """Hold our client against its bars."""
    ours = results.get(str(OURS))
    if ours is None:
        return [Verdict(False, "not measured")]
    send, taken, p50_us = median(ours.send), median(ours.consume), median(ours.p50_us)
    found = [
        Verdict(send >= SEND_LEAST, f"sends {send:,.0f} (at least {SEND_LEAST:,.0f})"),
        Verdict(taken >= CONSUME_LEAST, f"consumes {taken:,.0f} (at least {CONSUME_LEAST:,.0f})"),
        Verdict(p50_us < P50_MICROS_MOST, f"p50 {p50_us:,.0f} us (under 1 ms)"),
    ]
    theirs = results.get(str(CPP))
    if theirs is not None:
        for word in ("send", "consume"):
            times = _ratio(ours, theirs, word)
            found.append(Verdict(times > 1, f"{times:.1f}x the C++ binding's {word} rate"))
    return found


def _ratio(ours: Speeds, theirs: Speeds, word: str) -> float:
    """Return the median, over the rounds, of our rate divided by theirs of the same round."""
    pairs = zip(getattr(ours, word), getattr(theirs, word), strict=False)
    return float(median(one / other for one, other in pairs))


def _row(name: str, results: Results) -> tuple[str, ...]:
    speeds, ours = results[name], results.get(str(OURS))
    figures = (
        name,
        *(f"{median(values):,.0f}" for values in (speeds.send, speeds.consume)),
        *(f"{median(values):,.0f}" for values in (speeds.p50_us, speeds.p99_us)),
    )
    if name == str(OURS) or ours is None:
        found = "; ".join(f"{'met' if v.met else 'MISSED'}: {v.text}" for v in verdicts(results))
        return (*figures, "", "", "", found)
    ratios = [_ratio(ours, speeds, word) for word in ("send", "consume")]
    return (*figures, *(f"{times:.2f}x" for times in ratios), ", ".join(_ahead(name, ratios)), "")


def _ahead(name: str, ratios: Sequence[float]) -> Iterator[str]:
    """Name who is ahead, with how much."""
    for word, times in zip(("send", "consume"), ratios, strict=True):
        leader, factor = (str(OURS), times) if times >= 1 else (name, 1 / times)
        yield f"{word}: {leader} {factor:.1f}x"


def _keep(
    folder: Path, described: dict[str, Any], results: Results, missing: dict[str, str]
) -> Path:
    """Write everything as JSON; a second run of the day replaces it."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    content = {
        "date": date,
        "machine": described,
        "clients": {name: asdict(speeds) for name, speeds in results.items()},
        "missing": missing,
    }
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{date[:10]}-clients-{machine.slug(described)}.json"
    target.write_text(json.dumps(content, indent=1) + "\n")
    return target


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.client_speed", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=200_000, help="sent and consumed per round")
    parser.add_argument("--keep", action="store_true", help="the result goes to benchmarks/results")
    return parser


if __name__ == "__main__":
    sys.exit(main())
