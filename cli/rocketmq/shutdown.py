"""`mqshutdown broker` and `mqshutdown namesrv`: ends the servers of this user by SIGTERM."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

NAMES: Final = {"broker": "mqbroker", "namesrv": "mqnamesrv"}
PROC: Final = Path("/proc")


def mqshutdown(words: Sequence[str]) -> int:
    """End all servers of a kind that this user runs; return 1 where there is none."""
    if len(words) != 1 or words[0] not in NAMES:
        sys.stderr.write("Usage: mqshutdown broker | namesrv\n")
        return 2
    kind = words[0]
    name = NAMES[kind]
    found = running(kind)
    if not found:
        print(f"No {name} running.")
        return 1
    pids = " ".join(map(str, found))
    print(f"The {name}({pids}) is running...")
    for pid in found:
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            continue  # it has ended by itself
    print(f"Send shutdown request to {name}({pids}) OK")
    return 0


def running(kind: str) -> list[int]:
    """Return the process ids of a kind of server that belong to this user."""
    found = []
    for entry in PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if entry.stat().st_uid != os.getuid():
                continue
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it has gone
        if is_server(words, kind):
            found.append(int(entry.name))
    return sorted(found)


def is_server(words: Sequence[str], kind: str) -> bool:
    """Whether a command line is one that a server of this kind runs by."""
    ways = (
        ["-m", "aerobee.cli.rocketmq", NAMES[kind]],
        [NAMES[kind]],
        ["-m", f"aerobee.{kind}"],
        ["aerobee", kind, "start"],
        [kind, "start"],
    )
    named = [Path(word).name for word in words[:6]]
    if not named or not named[0].startswith("python"):
        return False
    return any(
        way in (list(words[at : at + len(way)]), named[at : at + len(way)])
        for way in ways
        for at in (1, 2)  # the interpreter may have an option
    )
