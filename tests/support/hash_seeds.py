"""The same seed in processes of its own, which hash texts differently."""

import os
import subprocess
import sys

from support.source_tree import ROOT


def digests_elsewhere(module: str, seed: int) -> set[str]:
    """Run a seed in two processes; return what their traces come to, one where they agree."""
    digests = set()
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", module, str(seed)],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT / "tests")},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        words = done.stdout.split()
        assert words[:2] == ["seed", f"{seed}:"], done.stderr
        digests.add(words[3])
    return digests
