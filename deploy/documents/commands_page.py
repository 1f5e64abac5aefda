"""Every command with its options and examples, from what `--help` says."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import click

from aerobee.cli.main import main
from deploy.documents.tables import code, table

OF_ALL: Final = ("namesrv", "output", "timeout_s")
"""Options of each command that asks a cluster, by the names of their values."""
HEAD: Final = ("option", "")
SERVERS: Final = {
    "aerobee broker start": "broker_settings.md",
    "aerobee namesrv start": "namesrv_settings.md",
}


def commands() -> str:
    """Return all commands in the order of `aerobee --help`."""
    top = click.Context(main, info_name="aerobee")
    found = list(tree(top))
    asking = next(context for context in found if _asks(context.command))
    shared = [each for each in asking.command.params if each.name in OF_ALL or _is_tls(each)]
    parts = [
        "## Options of all that ask a cluster",
        table(HEAD, map(_option, shared)),
        *(_command(context) for context in found),
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


def _command(context: click.Context) -> str:
    command, path = context.command, context.command_path
    marks = "##" if context.parent is not None and context.parent.parent is None else "###"
    parts = [f"{marks} {path}", _text(command.help or "")]
    if not isinstance(command, click.Group):
        usage = command.get_usage(context).removeprefix("Usage: ")
        parts.append(f"```text\n{' '.join(usage.split())}\n```")
        own = [each for each in command.params if not _shared(command, each)]
        shown = [each for each in own if not getattr(each, "hidden", False)]
        if rows := [_option(each) for each in shown if isinstance(each, click.Option)]:
            parts.append(table(HEAD, rows))
        if len(own) < len(command.params):
            parts.append("And [those of all](#options-of-all-that-ask-a-cluster).")
        if path in SERVERS:
            parts.append(f"Each [setting]({SERVERS[path]}) is an option, too.")
    if examples := _examples(command.epilog or ""):
        lines = "\n".join(examples)
        parts.append(f"```sh\n{lines}\n```")
    return "\n\n".join(filter(None, parts))


def _asks(command: click.Command) -> bool:
    return any(each.name == "namesrv" for each in command.params)


def _shared(command: click.Command, option: click.Parameter) -> bool:
    return _asks(command) and (option.name in OF_ALL or _is_tls(option))


def _is_tls(option: click.Parameter) -> bool:
    return any(each.startswith("--tls") for each in option.opts)


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
