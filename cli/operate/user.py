"""`aerobee user`: who may ask brokers that ask who is there."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from aerobee.admin.access import DISABLED, ENABLED, NORMAL, SUPER
from aerobee.cli.credentials import secret_text
from aerobee.cli.operate.cluster_door import (
    ClusterDoor,
    asks_cluster,
    broker_option,
    cluster_option,
    confirm,
    yes_option,
)
from aerobee.cli.operate.output import Cell, Table, show, tell_failed
from aerobee.cli.program import WrongSettings, ctrl_c_ends, examples, with_options
from aerobee.client.errors import InvalidUse
from aerobee.remoting.bodies import UserInfo

STATES: Final = {ENABLED: "enabled", DISABLED: "disabled"}

super_option = click.option(
    "--super/--normal", "is_super", default=None, help="May do everything, or what policies say."
)
_PASSWORD_OPTIONS: Final = (
    click.option("--password-file", type=click.Path(exists=True, dir_okay=False, allow_dash=True),
                 metavar="FILE", help="File that has it and nothing else; - for standard input."),
    click.option("--password-env", metavar="NAME", help="Environment variable that has it."),
)  # fmt: skip


def password_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the ways to give a password; none of them shows in a list of processes."""
    return with_options(command, _PASSWORD_OPTIONS)


@click.group(
    epilog=examples(
        "aerobee user list",
        "aerobee user create ann                       # asks for the password",
        "aerobee user create ci --password-env CI_PASSWORD",
        "aerobee user disable ann",
        "aerobee user copy ann --from broker-a",
    )
)
def user() -> None:
    """Users of brokers that ask who is there (authenticationEnabled).

    Each broker has users of its own; a command tells all of them, slaves too, unless -b or -c
    says which. Passwords are never printed.
    """


@user.command("list", epilog=examples("aerobee user list", "aerobee user list --like app -o json"))
@click.option("--like", default="", help="Only users whose name has this in it.")
@broker_option
@cluster_option
@asks_cluster
async def list_users(door: ClusterDoor, like: str, broker: str | None, cluster: str | None) -> None:
    """List users with their type and state; brokers on which he is the same share a line."""
    async with door.admin() as admin:
        servers = await admin.access.servers(cluster=cluster, broker=broker)
        answers = await admin.access.users(servers, like=like)
    where: dict[tuple[str, str, str], list[str]] = {}
    passwords: dict[str, dict[str | None, list[str]]] = {}
    for server, users in sorted(answers.found.items()):
        for name, info in users.items():
            where.setdefault((name, info.user_type or "", _state(info)), []).append(server)
            passwords.setdefault(name, {}).setdefault(info.password, []).append(server)
    rows: list[list[Cell]] = [[*key, ", ".join(found)] for key, found in sorted(where.items())]
    show(Table(("user", "type", "state", "brokers"), rows), door.output)
    for name, found in sorted(passwords.items()):
        if len(found) > 1 and None not in found:
            sides = " than on ".join(", ".join(each) for each in found.values())
            click.echo(f"warning: {name} has another password on {sides}", err=True)
    tell_failed(answers.failed)


@user.command(epilog=examples("aerobee user describe ann"))
@click.argument("name")
@broker_option
@cluster_option
@asks_cluster
async def describe(door: ClusterDoor, name: str, broker: str | None, cluster: str | None) -> None:
    """Show a user on each broker: his type, his state, and how many resources policies name.

    What they say shows `aerobee acl describe`. Exit code 2: nobody knows him.
    """
    async with door.admin() as admin:
        access = admin.access
        servers = await access.servers(cluster=cluster, broker=broker)
        answers = await admin.each(servers, lambda each: access.user(each, name))
        acls = await admin.each(servers, lambda each: access.acl(each, name))
    rows: list[list[Cell]] = []
    for server, info in sorted(answers.found.items()):
        acl = acls.found.get(server)
        count = sum(len(policy.entries) for policy in acl.policies) if acl is not None else 0
        rows.append(
            [server, info.user_type, _state(info), count]
            if info is not None
            else [server, None, "absent", 0]
        )
    if not any(info is not None for info in answers.found.values()):
        raise InvalidUse(f"no user {name!r} on {', '.join(sorted(answers.found))}")
    show(Table(("broker", "type", "state", "entries"), rows), door.output)
    tell_failed(answers.failed)


@user.command(
    epilog=examples(
        "aerobee user create ann", "aerobee user create root --super --password-file ./secret"
    )
)
@click.argument("name")
@super_option
@click.option("--disabled", is_flag=True, help="He may not sign yet.")
@password_options
@broker_option
@cluster_option
@asks_cluster
async def create(
    door: ClusterDoor,
    name: str,
    is_super: bool | None,
    disabled: bool,
    password_file: str | None,
    password_env: str | None,
    broker: str | None,
    cluster: str | None,
) -> None:
    """Make a user; a normal one may do nothing until `aerobee acl create` lets him.

    The password is asked for, twice, unless a file or a variable has it.
    """
    password = given_password(name, password_file, password_env)
    info = UserInfo(
        username=name,
        password=password,
        user_type=SUPER if is_super else NORMAL,
        user_status=DISABLED if disabled else ENABLED,
    )
    async with door.admin() as admin:
        servers = await admin.access.servers(cluster=cluster, broker=broker)
        await admin.access.create_user(info, servers)
    click.echo(f"{name}: made on {', '.join(servers)}")


@user.command(
    epilog=examples(
        "aerobee user alter ann --new-password", "aerobee user alter ann --super",
        "aerobee user alter ci --password-env CI_PASSWORD",
    )
)  # fmt: skip
@click.argument("name")
@super_option
@click.option("--enabled/--disabled", "enabled", default=None, help="Whether he may sign.")
@click.option("--new-password", is_flag=True, help="Ask for a new password.")
@password_options
@broker_option
@cluster_option
@asks_cluster
async def alter(
    door: ClusterDoor,
    name: str,
    is_super: bool | None,
    enabled: bool | None,
    new_password: bool,
    password_file: str | None,
    password_env: str | None,
    broker: str | None,
    cluster: str | None,
) -> None:
    """Change a user; what is not named stays."""
    password = None
    if new_password or password_file or password_env:
        password = given_password(name, password_file, password_env)
    info = UserInfo(
        username=name,
        password=password,
        user_type=None if is_super is None else SUPER if is_super else NORMAL,
        user_status=None if enabled is None else ENABLED if enabled else DISABLED,
    )
    if info == UserInfo(username=name):
        raise InvalidUse("nothing to change: say --new-password, --super, --normal, --disabled ...")
    await _alter(door, info, broker, cluster)


@user.command(epilog=examples("aerobee user enable ann"))
@click.argument("name")
@broker_option
@cluster_option
@asks_cluster
async def enable(door: ClusterDoor, name: str, broker: str | None, cluster: str | None) -> None:
    """Let a user sign again."""
    await _alter(door, UserInfo(username=name, user_status=ENABLED), broker, cluster)


@user.command(epilog=examples("aerobee user disable ann"))
@click.argument("name")
@broker_option
@cluster_option
@yes_option
@asks_cluster
async def disable(
    door: ClusterDoor, name: str, broker: str | None, cluster: str | None, yes: bool
) -> None:
    """Refuse all that a user signs, from now on; his policies stay."""
    confirm(f"{_who_asks(door, name)}Refuse all that {name} signs?", yes)
    await _alter(door, UserInfo(username=name, user_status=DISABLED), broker, cluster)


@user.command(epilog=examples("aerobee user delete ann --yes"))
@click.argument("name")
@broker_option
@cluster_option
@yes_option
@asks_cluster
async def delete(
    door: ClusterDoor, name: str, broker: str | None, cluster: str | None, yes: bool
) -> None:
    """Delete a user and all that policies say of him."""
    confirm(f"{_who_asks(door, name)}Delete user {name} and his policies?", yes)
    async with door.admin() as admin:
        servers = await admin.access.servers(cluster=cluster, broker=broker)
        had = await admin.access.delete_user(name, servers)
    click.echo(f"{name}: deleted on {', '.join(had)}" if had else f"{name}: nobody had him")


@user.command(
    epilog=examples(
        "aerobee user copy ann --from broker-a", "aerobee user copy ann --from a --to b --to c"
    )
)
@click.argument("name")
@click.option("--from", "source", required=True, metavar="BROKER", help="Where he is right.")
@click.option("--to", "targets", multiple=True, metavar="BROKER", help="[default: all others]")
@asks_cluster
async def copy(door: ClusterDoor, name: str, source: str, targets: tuple[str, ...]) -> None:
    """Give brokers a user as another one has him: password, type, state and policies.

    Done again it does no harm. It takes a super user, to whom alone passwords are told.
    """
    async with door.admin() as admin:
        servers = await admin.access.servers()
        for each in (source, *targets):
            if each not in servers:
                raise InvalidUse(f"no broker {each!r}; there is {', '.join(sorted(servers))}")
        chosen = targets or tuple(each for each in servers if each != source)
        await admin.access.copy_user(
            name, servers[source], {each: servers[each] for each in chosen}
        )
    click.echo(f"{name}: as on {source} on {', '.join(chosen) or 'no other broker'}")


def given_password(
    name: str,
    file: str | None,
    variable: str | None,
    environ: Mapping[str, str] = os.environ,
) -> str:
    """Return a password from where it is to come from, else from who sits at the terminal.

    Raises WrongSettings where there is none, or nobody to ask.
    """
    if file is not None and variable is not None:
        raise WrongSettings("give --password-file or --password-env, not both")
    if file is not None:
        if file == "-":
            with ctrl_c_ends():
                text = sys.stdin.read()
        else:
            text = secret_text(Path(file))
        password = text.strip("\r\n")
    elif variable is not None:
        password = environ.get(variable, "")
        if not password:
            raise WrongSettings(f"the variable {variable} is not set, or empty")
    elif sys.stdin.isatty():
        with ctrl_c_ends():
            password = str(
                click.prompt(
                    f"Password for {name}", hide_input=True, confirmation_prompt=True, err=True
                )
            )
    else:
        raise WrongSettings(
            f"no password for {name}: there is no terminal to ask on; --password-file FILE"
            " (- for standard input) or --password-env NAME gives it"
        )
    if not password.strip() or "\n" in password:
        raise WrongSettings("a password is one line, and not blank")
    return password


async def _alter(
    door: ClusterDoor, info: UserInfo, broker: str | None, cluster: str | None
) -> None:
    async with door.admin() as admin:
        servers = await admin.access.servers(cluster=cluster, broker=broker)
        await admin.access.alter_user(info, servers)
    click.echo(f"{info.username}: changed on {', '.join(servers)}")


def _who_asks(door: ClusterDoor, name: str) -> str:
    credentials = door.settings.credentials
    return "You ask as this user. " if credentials and credentials.access_key == name else ""


def _state(info: UserInfo) -> str:
    return STATES.get(info.user_status or ENABLED, info.user_status or "")
