"""`aerobee broker add` and `aerobee topic spread`: what is where."""

import click

from aerobee.admin.spreading import differing, filling, spreading
from aerobee.admin.topics import is_own_topic
from aerobee.cli.operate.changes_shown import make_changes
from aerobee.cli.operate.cluster_door import ClusterDoor, asks_cluster, cluster_option, yes_option
from aerobee.cli.program import examples
from aerobee.client.errors import InvalidUse

dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Show what would be done, and do nothing."
)


@click.command(
    epilog=examples(
        "aerobee broker add broker-c --from broker-a --dry-run",
        "aerobee broker add broker-c --from broker-a",
    )
)
@click.argument("name")
@click.option("--from", "source", required=True, metavar="BROKER", help="Whose topics and groups.")
@dry_run_option
@yes_option
@asks_cluster
async def add(door: ClusterDoor, name: str, source: str, dry_run: bool, yes: bool) -> None:
    """Give a broker that has just been started the topics and groups of another one.

    It takes messages as soon as clients hear of it, within 30 seconds. What it has already stays as
    it is, and is told where it differs. Done again it does what is left. Messages and offsets stay
    on their broker; users are copied by `aerobee user copy`.
    """
    async with door.admin() as admin:
        for each in (name, source):
            await admin.masters_of(None, each)
        if name == source:
            raise InvalidUse(f"{name} has its own topics already")
        current = await admin.metadata.current()
        await make_changes(door, admin, filling(current, name, source), dry_run=dry_run, yes=yes)
    for each in differing(current, name, source):
        click.echo(f"warning: {each} has other settings on {name} than on {source}", err=True)


@click.command(
    epilog=examples(
        "aerobee topic spread orders                 # to all masters, as it is",
        "aerobee topic spread --all --over broker-a --over broker-b --dry-run",
        "aerobee topic spread orders --total-queues 12",
    )
)
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All topics that users made.")
@click.option("--over", "brokers", multiple=True, metavar="BROKER",
              help="Over these brokers; may be repeated. [default: all masters]")  # fmt: skip
@click.option("--total-queues", type=click.IntRange(1, 32_767),
              help="So many queues on all of them together. [default: as now]")  # fmt: skip
@cluster_option
@dry_run_option
@yes_option
@asks_cluster
async def spread(
    door: ClusterDoor,
    names: tuple[str, ...],
    everything: bool,
    brokers: tuple[str, ...],
    total_queues: int | None,
    cluster: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Have topics on several brokers, so that clients share their load among them.

    It adds a topic where it is not, and with --total-queues shares its queues evenly; where they
    become fewer they can still be read, until `aerobee topic alter --queues` takes them away. No
    message moves. Of ordered topics keys find other queues from then on. Again it does nothing.
    """
    if everything == bool(names):
        raise InvalidUse("name topics, or say --all")
    async with door.admin() as admin:
        masters = {entry.name for entry in await admin.masters_of(cluster)}
        if unknown := set(brokers) - masters:
            raise InvalidUse(f"no broker {min(unknown)!r}; there is {', '.join(sorted(masters))}")
        current = await admin.metadata.current()
        chosen = names or [name for name in sorted(current.topics) if not is_own_topic(name)]
        plan = spreading(current, chosen, brokers or masters, total_queues=total_queues)
        await make_changes(door, admin, plan, dry_run=dry_run, yes=yes)
