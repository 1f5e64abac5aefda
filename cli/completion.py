"""`aerobee completion SHELL`: what a shell needs to complete our commands."""

import click
from click.shell_completion import get_completion_class

from aerobee.cli.program import Failure, examples


@click.command(epilog=examples('eval "$(aerobee completion bash)"'))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that makes SHELL complete `aerobee`, `broker` and `namesrv`."""
    from aerobee.cli import main

    found = get_completion_class(shell)
    if found is None:
        raise Failure(f"no completion for {shell}")
    for program in (main.main, main.broker, main.namesrv):
        name = str(program.name)
        click.echo(found(program, {}, name, f"_{name.upper()}_COMPLETE").source())
