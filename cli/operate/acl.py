"""`aerobee acl`: what users may do, and from where."""

from collections.abc import Callable
from typing import Any, Final

import click

from aerobee.admin.access import CUSTOM, DEFAULT, USER_PREFIX, new_entry
from aerobee.admin.client import AdminClient
from aerobee.cli.operate.cluster_door import (
    ClusterDoor,
    asks_cluster,
    broker_option,
    cluster_option,
    confirm,
    yes_option,
)
from aerobee.cli.operate.output import Cell, Table, show, tell_failed
from aerobee.cli.program import examples, with_options
from aerobee.client.errors import InvalidUse
from aerobee.remoting.bodies import AclInfo, PolicyEntryInfo

HEADS: Final = ("user", "policy", "resource", "actions", "sources", "decision", "brokers")
_ENTRY_OPTIONS: Final = (
    click.option("-r", "--resource", "resources", multiple=True, required=True,
                 metavar="KIND:NAME",
                 help="Topic:orders, Group:bill*, Cluster:c, Topic:*; may be repeated."),
    click.option("-a", "--action", "actions", multiple=True, required=True, metavar="ACTION",
                 help="Pub, Sub, Create, Update, Delete, Get, List, All; may be repeated."),
    click.option("--source", "sources", multiple=True, metavar="IP",
                 help="Only from this address or range (10.0.0.0/8); may be repeated."),
    click.option("--deny", is_flag=True, help="Forbid it; of equals this one decides."),
    click.option("--default", "as_default", is_flag=True,
                 help="Only where no other entry matches."),
)  # fmt: skip


def entry_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what an entry is made of."""
    return with_options(command, _ENTRY_OPTIONS)


@click.group(
    epilog=examples(
        "aerobee acl create shop -r Topic:orders -a Pub             # a producer",
        "aerobee acl create bill -r Topic:orders -r Group:billing -a Sub   # a consumer",
        "aerobee acl list",
        "aerobee acl delete shop -r Topic:orders",
    )
)
def acl() -> None:
    """What users may do (authorizationEnabled): entries of resources, actions, addresses.

    A producer needs Pub on its topics, a consumer Sub on its topics and on its group. Super users
    may do everything and need none.
    """


@acl.command(
    "list", epilog=examples("aerobee acl list", "aerobee acl list --resource Topic:orders")
)
@click.option("--user", "like", default="", help="Only users whose name has this in it.")
@click.option("--resource", default="", help="Only resources that have this in them.")
@broker_option
@cluster_option
@asks_cluster
async def list_entries(
    door: ClusterDoor, like: str, resource: str, broker: str | None, cluster: str | None
) -> None:
    """List entries; brokers that have the same one share a line."""
    async with door.admin() as admin:
        servers = await admin.access.servers(cluster=cluster, broker=broker)
        answers = await admin.access.acls(servers, subject=like, resource=resource)
    show(_table(answers.found), door.output)
    tell_failed(answers.failed)


@acl.command(epilog=examples("aerobee acl describe shop"))
@click.argument("user")
@broker_option
@cluster_option
@asks_cluster
async def describe(door: ClusterDoor, user: str, broker: str | None, cluster: str | None) -> None:
    """Show what entries say of USER."""
    async with door.admin() as admin:
        servers = await admin.access.servers(cluster=cluster, broker=broker)
        answers = await admin.each(servers, lambda each: admin.access.acl(each, user))
    found = {each: [info] for each, info in answers.found.items() if info is not None}
    show(_table(found), door.output)
    tell_failed(answers.failed)


@acl.command(
    epilog=examples(
        "aerobee acl create shop -r Topic:orders -a Pub",
        "aerobee acl create ops -r 'Topic:*' -r 'Group:*' -a Get -a List --source 10.0.0.0/8",
    )
)
@click.argument("user")
@entry_options
@broker_option
@cluster_option
@asks_cluster
async def create(door: ClusterDoor, user: str, **given: Any) -> None:
    """Let USER do something, or forbid it; refused where he has an entry of a resource already."""
    await _put(door, user, given, new=True)


@acl.command(epilog=examples("aerobee acl alter shop -r Topic:orders -a Pub -a Sub"))
@click.argument("user")
@entry_options
@broker_option
@cluster_option
@asks_cluster
async def alter(door: ClusterDoor, user: str, **given: Any) -> None:
    """Replace USER's entries of these resources; he has to have them."""
    await _put(door, user, given, new=False)


@acl.command(epilog=examples("aerobee acl delete shop -r Topic:orders", "aerobee acl delete shop"))
@click.argument("user")
@click.option("-r", "--resource", "resources", multiple=True, metavar="KIND:NAME",
              help="Of this resource alone; may be repeated. [default: all]")  # fmt: skip
@click.option("--default", "as_default", is_flag=True, help="Of the default policy alone.")
@broker_option
@cluster_option
@yes_option
@asks_cluster
async def delete(
    door: ClusterDoor,
    user: str,
    resources: tuple[str, ...],
    as_default: bool,
    broker: str | None,
    cluster: str | None,
    yes: bool,
) -> None:
    """Take entries from USER; without -r all that he has."""
    what = ", ".join(resources) or "everything"
    confirm(f"Take what entries say of {what} from {user}?", yes)
    kind = DEFAULT if as_default else CUSTOM if resources else None
    async with door.admin() as admin:
        servers = await admin.access.servers(cluster=cluster, broker=broker)
        found = await _entries(admin, servers, user)
        known = {resource for entries in found.values() for _, resource in entries}
        if unknown := set(resources) - known:
            names = ", ".join(sorted(known)) or "none"
            raise InvalidUse(f"{user} has no entry of {min(unknown)!r}; there is {names}")
        await admin.access.delete_entries(user, resources, servers, policy_type=kind)
    click.echo(f"{user}: {what} taken on {', '.join(servers)}")


async def _put(door: ClusterDoor, user: str, given: dict[str, Any], *, new: bool) -> None:
    entries = [
        new_entry(resource, given["actions"], given["sources"], deny=given["deny"])
        for resource in given["resources"]
    ]
    kind = DEFAULT if given["as_default"] else CUSTOM
    async with door.admin() as admin:
        servers = await admin.access.servers(cluster=given["cluster"], broker=given["broker"])
        found = await _entries(admin, servers, user)
        for entry in entries:
            has = [each for each in servers if (kind, entry.resource) in found[each]]
            if new and has:
                raise InvalidUse(
                    f"{user} has an entry of {entry.resource} on {', '.join(has)}:"
                    " `aerobee acl alter` replaces it"
                )
            if not new and not has:
                raise InvalidUse(
                    f"{user} has no entry of {entry.resource}: `aerobee acl create` makes one"
                )
        await admin.access.put_entries(user, entries, servers, policy_type=kind)
    for entry in entries:
        click.echo(f"{user}: {_words(entry)} on {', '.join(servers)}")


async def _entries(
    admin: AdminClient, servers: dict[str, str], user: str
) -> dict[str, set[tuple[str, str]]]:
    """Return by server which resources entries of a user name, with their policy."""
    acls = (await admin.each(servers, lambda each: admin.access.acl(each, user))).or_raise()
    return {
        server: {
            (policy.policy_type or CUSTOM, entry.resource)
            for policy in (info.policies if info is not None else ())
            for entry in policy.entries
        }
        for server, info in acls.items()
    }


def _table(found: dict[str, list[AclInfo]]) -> Table:
    where: dict[tuple[str, ...], list[str]] = {}
    for server, infos in sorted(found.items()):
        for info in infos:
            for policy in info.policies:
                for entry in policy.entries:
                    key = (
                        info.subject.removeprefix(USER_PREFIX),
                        policy.policy_type or CUSTOM,
                        entry.resource,
                        ",".join(sorted(entry.actions)),
                        ",".join(entry.source_ips or ()),
                        entry.decision,
                    )
                    where.setdefault(key, []).append(server)
    rows: list[list[Cell]] = [[*key, ", ".join(names)] for key, names in sorted(where.items())]
    return Table(HEADS, rows)


def _words(entry: PolicyEntryInfo) -> str:
    places = f" from {', '.join(entry.source_ips)}" if entry.source_ips else ""
    return f"{entry.decision} {','.join(entry.actions)} of {entry.resource}{places}"
