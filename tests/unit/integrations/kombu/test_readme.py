"""What the README says of Celery runs as it stands."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

from support.runs.source_tree import ROOT

from aerobee.testing import ClusterThread

EXAMPLE = re.compile(r"^## Celery$.*?^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SECONDS_MAX = 60


def test_the_example_charges(cluster: ClusterThread, tmp_path: Path) -> None:
    """Its worker runs a task that another process has sent, and ends when it is told to."""
    found = EXAMPLE.search((ROOT / "integrations/README.md").read_text())
    assert found is not None
    example = found[1].replace("127.0.0.1:9876", cluster.namesrv_addr)
    (tmp_path / "shop.py").write_text(example)
    sender = "import shop; shop.charge.delay(7); shop.charge.apply_async((8,), countdown=0.5)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", sender], env=environment, timeout=SECONDS_MAX, check=True)
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "shop", "worker", "-P", "solo", "-l", "INFO"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    overdue = threading.Timer(SECONDS_MAX, worker.kill)
    overdue.start()
    with worker:
        try:
            assert worker.stdout is not None
            charged: set[str] = set()
            for line in worker.stdout:
                charged |= set(re.findall(r"charged \d", line))
                if len(charged) == 2:
                    worker.terminate()
        finally:
            overdue.cancel()
            worker.kill()
    assert charged == {"charged 7", "charged 8"}
