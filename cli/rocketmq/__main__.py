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


def main() -> int:
    """Run the program that the first word names; return its exit code."""
    name, words = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    if name not in PROGRAMS:
        sys.stderr.write(f"usage: python -m aerobee.cli.rocketmq {'|'.join(PROGRAMS)} ...\n")
        return 2
    module, extra = PROGRAMS[name]
    if extra:
        exit_without(extra, name)
    code: int = getattr(importlib.import_module(module), name)(words)
    return code


if __name__ == "__main__":
    sys.exit(main())
