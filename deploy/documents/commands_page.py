"""Every command with its options and examples, from what `--help` says."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import click

from aerobee.cli.main import main
from deploy.documents.tables import code, table

HEAD: Final = ("option", "")
Said = tuple[tuple[str, ...], str | None]
SERVERS: Final = {
    "aerobee console": "console_settings.md",
    "aerobee broker start": "broker_settings.md",
    "aerobee namesrv start": "namesrv_settings.md",
}


def commands() -> str:
    """Return all commands in the order of `aerobee --help`."""
    top = click.Context(main, info_name="aerobee")
    found = list(tree(top))
    asking = [context.command for context in found if _asks(context.command)]
    counts = Counter(_said(option) for command in asking for option in command.params)
    of_all = frozenset(option for option, count in counts.items() if 2 * count > len(asking))
    shared = {_said(option): option for command in asking for option in command.params}
    parts = [
        "## Options of all that ask a cluster",
        table(HEAD, (_option(shared[each]) for each in shared if each in of_all)),
        *(_command(context, of_all) for context in found),
    ]
    return "\n\n".join(parts)


def tree(context: click.Context) -> Iterator[click.Context]:
    """Yield the commands below one, groups before what is in them."""
    group = context.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        yield inner
        if isinstance(command, click.Group):
            yield from tree(inner)


def _command(context: click.Context, of_all: frozenset[Said]) -> str:
    command, path = context.command, context.command_path
    marks = "##" if context.parent is not None and context.parent.parent is None else "###"
    parts = [f"{marks} {path}", _text(command.help or "")]
    if not isinstance(command, click.Group):
        usage = command.get_usage(context).removeprefix("Usage: ")
        parts.append(f"```text\n{' '.join(usage.split())}\n```")
        asks = _asks(command)
        own = [each for each in command.params if not (asks and _said(each) in of_all)]
        shown = [each for each in own if not getattr(each, "hidden", False)]
        if rows := [_option(each) for each in shown if isinstance(each, click.Option)]:
            parts.append(table(HEAD, rows))
        if asks:
            lacking = of_all - set(map(_said, command.params))
            but = ", ".join(sorted(code(names[-1]) for names, _ in lacking))
            without = f", but not {but}" if but else ""
            parts.append(f"And [those of all](#options-of-all-that-ask-a-cluster){without}.")
        if path in SERVERS:
            parts.append(f"Each [setting]({SERVERS[path]}) is an option, too.")
    if examples := _examples(command.epilog or ""):
        lines = "\n".join(examples)
        parts.append(f"```sh\n{lines}\n```")
    return "\n\n".join(filter(None, parts))


def _asks(command: click.Command) -> bool:
    return any(each.name == "namesrv" for each in command.params)


def _said(option: click.Parameter) -> Said:
    """Tell options of commands apart: by how they are written, and what is said of them."""
    return tuple(option.opts), getattr(option, "help", None)


def _option(option: click.Parameter) -> tuple[str, str]:
    assert isinstance(option, click.Option)
    context = click.Context(click.Command("x"))
    written, said = option.get_help_record(context) or (", ".join(option.opts), option.help or "")
    return code(written), said.replace("<", "&lt;")


def _text(help_text: str) -> str:
    """Return the help of a command without what click is told about its layout."""
    paragraphs = help_text.replace("\f", "\n").replace("\b\n", "").split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs).replace("<", "&lt;")


def _examples(epilog: str) -> Sequence[str]:
    _, _, lines = epilog.partition("Examples:\n")
    return [re.sub(r"^  ", "", line) for line in lines.splitlines() if line.strip()]
