"""The frame of every command: commands load when they are used, and errors are one clear line."""

import gc
import importlib
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, Final, NamedTuple

import click

from aerobee.remoting.errors import AerobeeError, system_error
from aerobee.remoting.extras import ExtraMissing, need

EXIT_FAILURE: Final = 1
EXIT_USAGE: Final = 2  # what click and shells use for a wrong call; wrong settings are one

EXIT_CTRL_C: Final = 130


def option_name(key: str) -> str:
    """Spell a settings key as an option without its dashes: `brokerIP1` is `broker-ip1`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[._]", "-", key).lower()


@contextmanager
def importing() -> Iterator[None]:
    """Keep the garbage collector away from what imports make: it stays, and there is much of it."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def ctrl_c_ends() -> Iterator[None]:
    """Let Ctrl-C end what waits for a line to be typed; where it does, the process ends with 130.

    An event loop that runs would note the first one, and wait for the line all the same.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # no signal comes here
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(EXIT_CTRL_C) from None
    except click.Abort as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            click.echo(err=True)
            raise SystemExit(EXIT_CTRL_C) from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


class Failure(click.ClickException):
    """An expected error: its text goes to stderr and the process ends with `exit_code`."""

    exit_code = EXIT_FAILURE

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the text, each line marked as an error."""
        for line in self.message.splitlines():
            click.echo(f"error: {line}", err=True, file=file)


class WrongSettings(Failure):
    """The settings cannot be used, which a shell can tell from a failure at work."""

    exit_code = EXIT_USAGE


class Lazy(NamedTuple):
    """Where a command is defined, and what `--help` says about it without loading it.

    `extra` is the one without which it cannot even be loaded.
    """

    module: str
    attribute: str
    help: str
    extra: str = "cli"


class Program(click.Group):
    """A group whose commands are imported only when they run: `--help` and start-up stay quick."""

    def __init__(self, lazy: Mapping[str, Lazy], **settings: Any) -> None:
        super().__init__(**settings)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order of their declaration."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if (lazy := self._lazy.get(cmd_name)) is None:
            return None
        try:
            need(lazy.extra, f"{ctx.command_path} {cmd_name}")
        except ExtraMissing as error:
            raise WrongSettings(str(error)) from None
        with importing():
            command = getattr(importlib.import_module(lazy.module), lazy.attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their one line each."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in self._lazy.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what it could foresee ends as one clear error instead of a traceback."""
        from aerobee.remoting.config.settings import SettingsError

        try:
            return super().invoke(ctx)
        except (ExtraMissing, SettingsError) as error:
            raise WrongSettings(str(error)) from None
        except AerobeeError as error:
            raise Failure(str(error) or type(error).__name__) from None
        except BrokenPipeError:
            raise  # the reader of our output left: click ends quietly
        except OSError as error:
            raise Failure(system_error(error)) from None


def with_options(
    command: Callable[..., Any], options: Sequence[Callable[[Any], Any]]
) -> Callable[..., Any]:
    """Add options that several commands share; help lists them in their order."""
    for option in reversed(options):
        command = option(command)
    return command


def examples(*lines: str) -> str:
    """Lay out the examples that end a command's help; click must not reflow them."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
