"""Asks the real RocketMQ every question of `probe_families` and keeps its answers in `behaviour/`.

PYTHONPATH=tests python tests/golden/capture_behaviour.py [FAMILY ...]
"""

import sys
import tempfile
from pathlib import Path

from support.golden.behaviour import Prober, save
from support.golden.probe_families import FAMILIES
from support.interop.rocketmq_server import RocketMQ

BEHAVIOUR = Path(__file__).parent / "behaviour"


def main() -> None:
    """Record every family against a fresh server, for answers must not depend on other families."""
    BEHAVIOUR.mkdir(exist_ok=True)
    for family in sys.argv[1:] or FAMILIES:
        probes = FAMILIES[family]
        with (
            tempfile.TemporaryDirectory() as directory,
            RocketMQ(Path(directory)) as server,
            Prober(server) as prober,
        ):
            answered = [probe | {"answer": prober.ask(probe)} for probe in probes]
        save(BEHAVIOUR / f"{family}.json", answered)
        print(f"{family}: {len(answered)} answers")


if __name__ == "__main__":
    main()
