"""The outbox recipe of client/README.md, run in a process that dies at a chosen place."""

import asyncio
import re
import runpy
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any, Final

README: Final = Path(__file__).parents[3] / "client" / "README.md"

DYING: Final = """
import asyncio, os, runpy, signal, sys

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

async def die_later(*_):
    die()

import aerobee.client
producer, half = aerobee.client.TransactionProducer, aerobee.client.HalfMessage
place = sys.argv[1]
if place == "before the commit":
    half.committing = die
elif place == "before the end":
    producer._end = die_later
asyncio.run(runpy.run_path("recipe.py")["main"]())
"""
"""Runs the recipe in a process that kills itself at a place."""


def recipe(folder: Path, namesrv: str) -> Path:
    """Write the program as it stands in the README, for this nameserver."""
    programs = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (found,) = [each for each in programs if "class Outbox" in each]
    path = folder / "recipe.py"
    path.write_text(found.replace("127.0.0.1:9876", namesrv))
    return path


def definitions(folder: Path, namesrv: str) -> dict[str, Any]:
    """Return what the program defines, without running it."""
    return runpy.run_path(str(recipe(folder, namesrv)))


async def run_and_die(place: str, namesrv: str, folder: Path) -> None:
    """Run the recipe until it dies."""
    recipe(folder, namesrv)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DYING, place, cwd=folder, stderr=-2, stdout=-1
    )
    async with asyncio.timeout(30):
        output, _ = await child.communicate()
    assert child.returncode == -signal.SIGKILL, output.decode()


def open_database(folder: Path) -> sqlite3.Connection:
    """Open the database that the recipe has made."""
    path = folder / "orders.db"
    assert path.exists()
    return sqlite3.connect(path)
