"""The same seed in processes of its own, which hash texts differently."""

import os
import subprocess
import sys

from support.runs.source_tree import ROOT


def digests_elsewhere(module: str, seed: int) -> set[str]:
    """Run a seed in two processes; return what their traces come to, one where they agree."""
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", module, str(seed)],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT / "tests")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    digests = set()
    for run in runs:
        printed, complaints = run.communicate(timeout=120)
        words = printed.split()
        assert words[:2] == ["seed", f"{seed}:"], complaints
        digests.add(words[3])
    return digests
