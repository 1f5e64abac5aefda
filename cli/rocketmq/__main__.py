"""`python -m aerobee.cli.rocketmq mqbroker -c broker.conf`: what the scripts in `bin` run."""

import importlib
import sys
from typing import Final

from aerobee.remoting.extras import exit_without

PROGRAMS: Final = {
    "mqadmin": ("aerobee.cli.rocketmq.mqadmin", "cli"),
    "mqbroker": ("aerobee.cli.rocketmq.servers", "broker"),
    "mqnamesrv": ("aerobee.cli.rocketmq.servers", "broker"),
    "mqshutdown": ("aerobee.cli.rocketmq.shutdown", ""),
}


def mqadmin() -> int:
    """`mqadmin`, as a console script."""
    return _run("mqadmin", sys.argv[1:])


def mqbroker() -> int:
    """`mqbroker`."""
    return _run("mqbroker", sys.argv[1:])


def mqnamesrv() -> int:
    """`mqnamesrv`."""
    return _run("mqnamesrv", sys.argv[1:])


def mqshutdown() -> int:
    """`mqshutdown`."""
    return _run("mqshutdown", sys.argv[1:])


def main() -> int:
    """Run the program that the first word names; return its exit code."""
    if len(sys.argv) < 2 or sys.argv[1] not in PROGRAMS:
        sys.stderr.write(f"usage: python -m aerobee.cli.rocketmq {'|'.join(PROGRAMS)} ...\n")
        return 2
    return _run(sys.argv[1], sys.argv[2:])


def _run(name: str, words: list[str]) -> int:
    module, extra = PROGRAMS[name]
    if extra:
        exit_without(extra, name)
    code: int = getattr(importlib.import_module(module), name)(words)
    return code


if __name__ == "__main__":
    sys.exit(main())
