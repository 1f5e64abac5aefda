"""What `broker start` and `namesrv start` share: settings from a file, options, the environment."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import click

from aerobee.cli.program import examples, option_name
from aerobee.remoting.config.secret_keys import FILE, is_secret, without_secrets
from aerobee.remoting.config.settings import ServerSettings

S = TypeVar("S", bound=ServerSettings)


def server_command(
    settings: type[S],
    serve: Callable[[S, Path | None], int],
    *,
    help_text: str,
    shown: Mapping[str, str],
    short: Mapping[str, str],
    shell_lines: tuple[str, ...],
) -> click.Command:
    """Build a `start` command: `-c`, `-p` and one option per settings key.

    `shown` maps the keys that `--help` lists to their text, `short` a key to its one-letter option.
    The other keys are options too. `serve` runs the server and returns the exit code.
    """

    def start(config_file: Path | None, print_config_item: bool, **texts: str | None) -> None:
        # else pydantic reads the metadata of every package for somebody to ask about settings
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        given = {key: text for key, text in texts.items() if text is not None}
        loaded, warnings = settings.load(config_file, given)
        for warning in warnings:
            click.echo(f"warning: {warning}", err=True)
        if not print_config_item:
            click.get_current_context().exit(serve(loaded, config_file))
        for key, value in without_secrets(dict(loaded.items())).items():
            click.echo(f"{key}={value}")

    return click.Command(
        "start",
        callback=start,
        help=help_text,
        epilog=examples(*shell_lines),
        params=[
            click.Option(
                ["-c", "--config-file"],
                type=click.Path(path_type=Path),
                help="A properties file with RocketMQ's keys.",
            ),
            click.Option(
                ["-p", "--print-config-item"],
                is_flag=True,
                help="Print every setting as key=value, passwords hidden, and end.",
            ),
            *_options(settings, shown, short),
        ],
    )


def _options(
    settings: type[ServerSettings], shown: Mapping[str, str], short: Mapping[str, str]
) -> list[click.Parameter]:
    """Make one text option per key; the settings check the text as they check a file's."""
    found: list[click.Parameter] = []
    for name, key in settings.keys().items():
        letters = [f"-{short[key]}"] if key in short else []
        text = shown.get(key)
        default = settings.model_fields[name].default
        if text is not None and isinstance(default, str | int) and default != "":
            shown_default = str(default).lower() if isinstance(default, bool) else default
            text = f"{text} [default: {shown_default}]"
        option = click.Option(
            [*letters, f"--{option_name(key)}"], metavar="VALUE", help=text, hidden=text is None
        )
        found.append(option)
        if is_secret(key):  # else it would be seen in the list of processes
            text = shown.get(key + FILE)
            found.append(
                click.Option(
                    [f"--{option_name(key + FILE)}"], metavar="FILE", help=text, hidden=text is None
                )
            )
    return found
