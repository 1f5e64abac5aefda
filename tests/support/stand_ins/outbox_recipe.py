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

PLACES: Final = {
    "before the half": 2,
    "before the rows": 4,
    "between the rows": 5,
    "behind the rows": 6,
    "before the commit": 7,
    "before the end": 8,
    "of the next order, between its rows": 13,
    "of the next order, before its end": 15,
}
"""Lines of `place_order` as they run, counted from 1; that of a `with` comes again at its end."""

DYING: Final = """
import asyncio, os, runpy, signal, sys

import aerobee.client
import aerobee.client.transactions.producer as told

where = sys.argv[1]
steps = 0

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

async def die_later(*_):
    die()

def at_line(frame, event, _):
    global steps
    if frame.f_code.co_name != "place_order" or not frame.f_code.co_filename.endswith("recipe.py"):
        return None
    if event == "line":
        steps += 1
        if where == str(steps):
            die()
    return at_line

if where == "reply lost":
    aerobee.client.HalfMessage.__init__ = die
elif where == "end said":
    say = told._say
    def say_and_die(connection, *arguments):
        say(connection, *arguments)
        connection.flush()
        die()
    told._say = say_and_die
else:
    sys.settrace(at_line)
asyncio.run(runpy.run_path("recipe.py")["main"]())
"""
"""Runs the recipe in a process that kills itself before a line of `place_order`, or elsewhere."""


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
    place = str(PLACES.get(place, place))
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
