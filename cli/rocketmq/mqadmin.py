"""`mqadmin COMMAND ...` for scripts: what can be done here is; the rest is left to RocketMQ's own.

Names and options are RocketMQ's, and so is what is printed, as far as scripts read it. Unlike
there, the exit code says whether it went well.
"""

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from aerobee.admin.client import AdminClient
from aerobee.cli.credentials import ACCESS_KEY_VARIABLE, find_credentials
from aerobee.cli.program import EXIT_CTRL_C
from aerobee.cli.rocketmq import brokers, groups, topics
from aerobee.cli.rocketmq.given import AdminCommand, parse
from aerobee.client.settings import ClientSettings
from aerobee.remoting.errors import AerobeeError, system_error

COMMANDS: Final = topics.COMMANDS | groups.COMMANDS | brokers.COMMANDS
NAMESRV: Final = "127.0.0.1:9876"
EXIT_FAILURE: Final = 1
EXIT_USAGE: Final = 2


def mqadmin(words: Sequence[str]) -> int:
    """Run one command; return the exit code."""
    if not words or words[0] in ("help", "-h", "--help"):
        print("The most commonly used mqadmin commands are:")
        for name in COMMANDS:
            print(f"   {name}")
        print("\nOthers are run by $ROCKETMQ_HOME/bin/mqadmin; `aerobee --help` lists our own.")
        return 0
    by_name = {name.lower(): name for name in COMMANDS}
    if (wanted := words[0].lower()) not in by_name:
        return _left_to_rocketmq(words)
    name = by_name[wanted]
    command = COMMANDS[name]
    given = parse(name, command, list(words[1:]))
    try:
        asyncio.run(_run(command, given, _settings()))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_CTRL_C
    except BrokenPipeError:  # who reads has enough; nothing is to be written when Python ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
    except click.UsageError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return EXIT_USAGE
    except (AerobeeError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_FAILURE
    except OSError as error:
        sys.stderr.write(f"error: {system_error(error)}\n")
        return EXIT_FAILURE
    return 0


def _settings() -> ClientSettings:
    """Return how brokers are asked: signed, where tools.yml or a variable says by whom."""
    files = (os.environ.get(each) for each in ("AEROBEE_SECRET_KEY_FILE", "AEROBEE_CREDENTIALS"))
    secret_file, file = (Path(each) if each else None for each in files)
    name = os.environ.get(ACCESS_KEY_VARIABLE)
    return ClientSettings(credentials=find_credentials(name, secret_file if name else None, file))


async def _run(command: AdminCommand, given: Namespace, settings: ClientSettings) -> None:
    namesrv = given.namesrvAddr or os.environ.get("NAMESRV_ADDR") or NAMESRV
    async with AdminClient(namesrv, settings=settings) as admin:
        await command.run(admin, given)


def _left_to_rocketmq(words: Sequence[str]) -> int:
    """Run RocketMQ's own tool instead, which takes this process's place."""
    home = os.environ.get("ROCKETMQ_HOME", "")
    script = Path(home, "bin", "mqadmin")
    if home and script.is_file() and b"aerobee" not in script.read_bytes():
        os.execvp("sh", ["sh", str(script), *words])
    sys.stderr.write(
        f"error: mqadmin {words[0]} is not done here: set ROCKETMQ_HOME to the folder of RocketMQ's"
        " tools, which work with these brokers, or see `aerobee --help`\n"
    )
    return EXIT_USAGE
