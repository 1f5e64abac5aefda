"""What a broker and its files tell while it is measured: counters, checkpoints, disk space."""

import http.client
import re
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from benchmarks.generator import LoadFailed

SCRAPE_S_MAX: Final = 60.0
LOOK_S: Final = 0.02


def scraped(port: int) -> str:
    """Return the metrics of a broker of ours; LoadFailed where there are none."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=SCRAPE_S_MAX)
    try:
        client.request("GET", "/metrics")
        text = client.getresponse().read().decode()
    finally:
        client.close()
    if "rocketmq_topic_number" not in text:
        raise LoadFailed(f"there are no metrics at port {port}")
    return text


def counted(text: str, name: str) -> float:
    """Return the sum of a metric's values in what was scraped."""
    rows = re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE)
    return sum(map(float, rows))


def disk_mb(folder: Path) -> float:
    """Return how much disk space the files of a folder have, holes not counted."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sum(path.stat().st_blocks for path in files) * 512 / 1e6


class Checkpoints:
    """Counts how often a store's `checkpoint` is written, as long as the block lasts."""

    def __init__(self, store: Path) -> None:
        self._path = store / "checkpoint"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._before = 0
        self.count = 0

    def __enter__(self) -> Self:
        self._before = self._written_at()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_S):
            now = self._written_at()
            self.count += now != self._before
            self._before = now

    def _written_at(self) -> int:
        try:
            return self._path.stat().st_mtime_ns
        except FileNotFoundError:
            return 0
