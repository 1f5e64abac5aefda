"""Measures single sends of our client against our broker: `send_soon`, `await send`, one at a time.

    PYTHONPATH=tests python -m benchmarks.client_sends [--rounds N] [--messages N] [--beside DIR]

The broker has the first CPU, the client the last. Each round has the compiled code, the Python that
does the same, and the client of another checkout if one is given, in turns. Exits with 1 when a bar
is missed.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Final

from support.interop.aerobee_server import Aerobee
from support.interop.raw_messages import create_topic, wait_for_route

from benchmarks.reports import machine
from benchmarks.reports.report import print_table

QUEUES: Final = 4
LOAD: Final = Path(__file__).parent / "pieces" / "sending_load.py"
LONE_SHARE: Final = 20  # one at a time are so many times fewer
BARS: Final = {"soon": 300_000.0, "await": 180_000.0}
LONE_P50_US_MOST: Final = 100.0
COLUMNS: Final = ("load", "client", "msg/s", "spread", "CPU us/msg", "p50 us", "p99 us", "bar")
COMPILED: Final = "compiled"

Figures = dict[str, float]
Results = dict[tuple[str, str], list[Figures]]


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print; return the exit status."""
    options = _parser().parse_args(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and stop what was started
    clients = {COMPILED: (sys.executable, "1"), "Python": (sys.executable, "0")}
    if options.beside:
        clients["beside"] = (str(Path(options.beside, ".venv/bin/python")), "1")
    results: Results = defaultdict(list)
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[0]})  # where the servers go
    with (
        tempfile.TemporaryDirectory(prefix="sends-", ignore_cleanup_errors=True) as folder,
        Aerobee(Path(folder)) as cluster,
    ):
        os.sched_setaffinity(0, {cpus[-1]})  # where the clients go
        for number, load, name in product(range(options.rounds), options.loads, clients):
            if name == "beside" and load == "soon":
                continue
            topic = f"{load}-{name}-{number}"
            create_topic(cluster.broker, topic, QUEUES)
            wait_for_route(cluster.namesrv, topic)
            count = options.messages // (LONE_SHARE if load == "lone" else 1)
            results[load, name].append(_run(clients[name], cluster.namesrv, topic, load, count))
    os.sched_setaffinity(0, set(cpus))
    print(", ".join(f"{key} {value}" for key, value in machine.describe().items() if value != ""))
    print_table(COLUMNS, [_row(load, name, runs) for (load, name), runs in results.items()])
    missed = [
        load for (load, name), runs in results.items() if _verdict(load, name, runs) == "MISSED"
    ]
    return 1 if missed else 0


def _run(client: tuple[str, str], namesrv: str, topic: str, load: str, count: int) -> Figures:
    python, compiled = client
    environment = {**os.environ, "AEROBEE_CLIENT_COMPILED": compiled, "PYTHONPATH": ""}
    command = [python, str(LOAD), namesrv, topic, load, str(count)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)
    found: Figures = json.loads(done.stdout)
    print(f"{topic}: {found}", file=sys.stderr, flush=True)
    return found


def _row(load: str, name: str, runs: list[Figures]) -> tuple[str, ...]:
    rates = [each["rate"] for each in runs]
    spread = (max(rates) - min(rates)) / median(rates)
    latency = [
        f"{median(each[word] for each in runs):,.0f}" if word in runs[0] else ""
        for word in ("p50_us", "p99_us")
    ]
    cpu = f"{median(each['cpu_us'] for each in runs):.2f}"
    return (
        load,
        name,
        f"{median(rates):,.0f}",
        f"{spread:.0%}",
        cpu,
        *latency,
        _verdict(load, name, runs),
    )


def _verdict(load: str, name: str, runs: list[Figures]) -> str:
    if name != COMPILED:
        return ""
    if load == "lone":
        met = median(each["p50_us"] for each in runs) <= LONE_P50_US_MOST
    else:
        met = median(each["rate"] for each in runs) >= BARS[load]
    return "met" if met else "MISSED"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.client_sends", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--loads", nargs="+", default=["soon", "await", "lone"])
    parser.add_argument("--beside", help="another checkout, with its .venv")
    return parser


if __name__ == "__main__":
    sys.exit(main())
