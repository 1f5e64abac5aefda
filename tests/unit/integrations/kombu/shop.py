"""Tasks of a small shop: what a worker process runs and what its tests send."""

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery

import aerobee.integrations.kombu

__all__ = ["aerobee"]

FOLDER = Path(os.environ.get("SHOP_FOLDER", "."))

app = Celery(
    "shop",
    broker=f"aerobee://{os.environ.get('SHOP_NAMESRV', '127.0.0.1:9876')}",
    backend=f"file://{FOLDER}/results",
)
app.conf.update(
    broker_connection_retry_on_startup=True,
    worker_send_task_events=True,
    worker_prefetch_multiplier=1,
    broker_transport_options={"handover_timeout": 1},
)


def note(text: str) -> None:
    """Write down what a task does."""
    with (FOLDER / "notes").open("a") as notes:
        notes.write(f"{text}\n")


@app.task
def add(first: int, second: int) -> int:
    """Return a sum."""
    return first + second


@app.task
def noted(text: str) -> None:
    """Leave a note."""
    note(text)


@app.task(bind=True, max_retries=2)
def second_time_lucky(self: Any) -> int:
    """Fail once, and come again a second later; return how often it was tried again."""
    if self.request.retries == 0:
        raise self.retry(countdown=1)
    return int(self.request.retries)


@app.task(acks_late=True)
def slow(name: str) -> str:
    """Begin, wait until a file says that it may end, and end."""
    note(f"{name} begins")
    while not (FOLDER / f"{name}-may-end").exists():
        time.sleep(0.02)
    note(f"{name} ends")
    return name
