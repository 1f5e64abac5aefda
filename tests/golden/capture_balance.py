"""Write `balance/shapes.txt`: how the Java classes of 5.5.0 share random queues and members.

PYTHONPATH=tests python tests/golden/capture_balance.py
"""

import subprocess
from pathlib import Path
from typing import Final

from support.interop.toolchain import classpath, tool

FOLDER: Final = Path(__file__).parent / "balance"
HEAD: Final = """\
# How RocketMQ 5.5.0's AllocateMessageQueue... classes share 3,000 random shapes.
# Line n (from 0) is the shape that java.util.Random(n) makes in Shapes.java, and tests/unit/client
# in the same way. Columns: AVG, AVG_BY_CIRCLE, CONSISTENT_HASH with 10 and with a random number of
# virtual nodes, MACHINE_ROOM, MACHINE_ROOM_NEARBY-AVG, MACHINE_ROOM_NEARBY-CONSISTENT_HASH; in each
# a character for every queue of the sorted list: which of the sorted members owns it, - if none.
# Captured by tests/golden/capture_balance.py.
"""


def main() -> None:
    """Run the Java program and keep what it prints."""
    source = FOLDER / "Shapes.java"
    command = [tool("java"), "-Dfile.encoding=UTF-8", "-cp", classpath("client-5.5.0"), str(source)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line for line in printed.splitlines() if line and set(line) <= OWNERS]
    (FOLDER / "shapes.txt").write_text(HEAD + "\n".join(rows) + "\n")
    print(f"{len(rows)} rows")


OWNERS: Final = set("0123456789abcdefghijklmnopqrstuvwxyz- ")

if __name__ == "__main__":
    main()
