"""`aerobee broker` and `aerobee cluster`: states, settings, taking a broker out of service."""

from collections.abc import Iterable
from typing import Final

import click

from aerobee.admin.brokers import DrainState, first_rate
from aerobee.cli.operate.cluster_door import (
    ClusterDoor,
    asks_cluster,
    cluster_option,
    confirm,
    watch,
    yes_option,
)
from aerobee.cli.operate.group import watch_option
from aerobee.cli.operate.output import Cell, Table, show, tell_failed
from aerobee.cli.program import Failure, examples
from aerobee.client.errors import InvalidUse

SECRET: Final = (
    "password", "secret", "credential", "initauthenticationuser", "accesskey", "exporterheader",
)  # fmt: skip
"""Words in the key of a setting that is not printed."""


@click.group(epilog=examples("aerobee cluster list"))
def cluster() -> None:
    """Clusters: what has registered with the nameservers, and these themselves."""


@cluster.command("list", epilog=examples("aerobee cluster list -o json"))
@asks_cluster
async def list_clusters(door: ClusterDoor) -> None:
    """List each cluster's brokers, with all their addresses, as the nameservers know them."""
    async with door.admin() as admin:
        entries = await admin.brokers()
    rows: list[list[Cell]] = [
        [each.cluster, each.name, each.broker_id, "slave" if each.broker_id else "master",
         each.address]
        for each in entries
    ]  # fmt: skip
    show(Table(("cluster", "broker", "id", "role", "address"), rows), door.output)


@cluster.command("settings", epilog=examples("aerobee cluster settings --like wait"))
@click.option("--like", default="", help="Only keys that have this in them.")
@asks_cluster
async def namesrv_settings(door: ClusterDoor, like: str) -> None:
    """Show the settings of each nameserver; secrets are not printed."""
    async with door.admin() as admin:
        found = await admin.broker.namesrv_settings()
    rows: list[list[Cell]] = [
        [address, key, _shown(key, value)]
        for address, settings in found.items()
        for key, value in sorted(settings.items())
        if like.lower() in key.lower()
    ]
    show(Table(("nameserver", "key", "value"), rows), door.output)


@cluster.command("set", epilog=examples("aerobee cluster set waitSecondsForService=10"))
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
@asks_cluster
async def set_namesrv_settings(door: ClusterDoor, settings: tuple[str, ...]) -> None:
    """Change settings of all nameservers that run."""
    wanted = _wanted(settings)
    async with door.admin() as admin:
        before = await admin.broker.namesrv_settings()
        for address, known in before.items():
            if unknown := sorted(wanted.keys() - known.keys()):
                raise InvalidUse(f"{address} has no setting {unknown[0]!r}")
        await admin.broker.set_namesrv(wanted)
        after = await admin.broker.namesrv_settings()
    for address, now in after.items():
        for key in wanted:
            click.echo(f"{address}: {key}: {before[address][key]} -> {now.get(key, '')}")


@click.command("list", epilog=examples("aerobee broker list", "aerobee broker list -w 2"))
@watch_option
@cluster_option
@asks_cluster
async def list_brokers(door: ClusterDoor, watch_s: float | None, cluster: str | None) -> None:
    """List the masters: versions, messages in and out per second, today's messages, disks.

    Exit code 4: some did not answer; they are named.
    """
    async with door.admin() as admin:

        async def once() -> None:
            entries = {each.name: each for each in await admin.masters_of(cluster)}
            answers = await admin.broker.states(cluster=cluster)
            rows: list[list[Cell]] = [
                [entries[name].cluster if name in entries else "", name,
                 entries[name].address if name in entries else "",
                 state.get("brokerVersionDesc", ""),
                 round(first_rate(state, "putTps"), 1),
                 round(first_rate(state, "getTransferredTps"), 1),
                 _today(state), _share(state.get("commitLogDiskRatio"))]
                for name, state in sorted(answers.found.items())
            ]  # fmt: skip
            heads = ("cluster", "broker", "address", "version", "in_tps", "out_tps", "in_today",
                     "disk_percent")  # fmt: skip
            show(Table(heads, rows), door.output)
            if watch_s is None:
                tell_failed(answers.failed)

        await watch(watch_s, once)


@click.command(epilog=examples("aerobee broker describe broker-a --like Tps"))
@click.argument("name")
@click.option("--like", default="", help="Only what has this in its name.")
@asks_cluster
async def describe(door: ClusterDoor, name: str, like: str) -> None:
    """Show everything that a broker says of itself."""
    async with door.admin() as admin:
        states = (await admin.broker.states(broker=name)).or_raise()
    _show_pairs(door, states[name].items(), like)


@click.command("settings", epilog=examples("aerobee broker settings broker-a --like flush"))
@click.argument("name")
@click.option("--like", default="", help="Only keys that have this in them.")
@asks_cluster
async def get_settings(door: ClusterDoor, name: str, like: str) -> None:
    """Show the settings of a broker; secrets are not printed."""
    async with door.admin() as admin:
        settings = await admin.broker.settings(name)
    pairs = [(key, _shown(key, value)) for key, value in settings.items()]
    _show_pairs(door, pairs, like)


@click.command(
    "set", epilog=examples("aerobee broker set broker-a fileReservedTime=24 deleteWhen=04")
)
@click.argument("name")
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
@asks_cluster
async def set_settings(door: ClusterDoor, name: str, settings: tuple[str, ...]) -> None:
    """Change settings of a broker that runs, and say which it has then.

    Aerobee refuses what takes a restart. RocketMQ takes any key and says nothing: a key that it
    does not know, or does not take, is an error here (code 1).
    """
    wanted = _wanted(settings)
    async with door.admin() as admin:
        before = await admin.broker.settings(name)
        if unknown := sorted(wanted.keys() - before.keys()):
            raise InvalidUse(
                f"{name} has no setting {unknown[0]!r}; `aerobee broker settings {name}` lists them"
            )
        remark = await admin.broker.set(name, wanted)
        after = await admin.broker.settings(name)
    if remark:
        click.echo(f"{name}: {remark}", err=True)
    for key in wanted:
        click.echo(f"{key}: {before[key]} -> {after.get(key, '')}")
    if refused := [key for key, value in wanted.items() if after.get(key) != value]:
        raise Failure(f"{name} did not take {', '.join(refused)}")


@click.command("wipe-writes", epilog=examples("aerobee broker wipe-writes broker-a"))
@click.argument("name")
@yes_option
@asks_cluster
async def wipe_writes(door: ClusterDoor, name: str, yes: bool) -> None:
    """Let nameservers tell clients that a broker's topics cannot be written.

    It lasts until the broker registers a topic anew, or a nameserver starts again: `drain` is what
    stays.
    """
    confirm(f"Let clients send nothing more to {name}?", yes)
    async with door.admin() as admin:
        found = await admin.broker.wipe_write_permission(name)
    for address, count in found.items():
        click.echo(f"{address}: {count} topics of {name} cannot be written")


@click.command("allow-writes", epilog=examples("aerobee broker allow-writes broker-a"))
@click.argument("name")
@asks_cluster
async def allow_writes(door: ClusterDoor, name: str) -> None:
    """Undo wipe-writes: all topics of a broker can be written again, whatever they were before."""
    async with door.admin() as admin:
        found = await admin.broker.add_write_permission(name)
    for address, count in found.items():
        click.echo(f"{address}: {count} topics of {name} can be written")


@click.command(
    epilog=examples(
        "aerobee broker drain broker-a", "aerobee broker drain broker-a --drain-timeout 600"
    )
)
@click.argument("name")
@click.option("--drain-timeout", "limit_s", type=click.FloatRange(1), metavar="SECONDS",
              help="Give up after so long. [default: never]")  # fmt: skip
@click.option(
    "--skip-absent",
    is_flag=True,
    help="Do not wait for groups without members: they get the rest when it is back.",
)
@yes_option
@asks_cluster
async def drain(
    door: ClusterDoor, name: str, limit_s: float | None, skip_absent: bool, yes: bool
) -> None:
    """Let a broker take no more messages, and wait until groups have consumed what it has.

    Clients hear of it within 30 seconds. Then it can be stopped: this leaves it as it is
    (brokerPermission=4; `aerobee broker set NAME brokerPermission=6` takes it back). Ctrl-C, and
    the end of the time, let it take messages again. Producers need another broker that has their
    topics.
    """
    confirm(f"Let {name} take no more messages, and wait until it is empty?", yes)
    told = ""

    def progress(state: DrainState) -> None:
        nonlocal told
        lags = sorted(state.lags.items(), key=lambda each: -each[1])
        text = ", ".join(f"{group} {lag:,}" for group, lag in lags[:5]) or "nothing"
        text += f"; {state.delayed:,} wait for their time" if state.delayed else ""
        if text != told:
            click.echo(f"{name}: left to consume: {text}", err=True)
            told = text

    async with door.admin() as admin:
        await admin.broker.drain(
            name, timeout_s=limit_s, skip_absent=skip_absent, progress=progress
        )
    click.echo(f"{name}: drained, it can be stopped")


def _wanted(settings: tuple[str, ...]) -> dict[str, str]:
    wanted: dict[str, str] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise InvalidUse(f"{text!r}: write KEY=VALUE")
        wanted[key] = value
    return wanted


def _shown(key: str, value: str) -> str:
    return "***" if value and any(word in key.lower() for word in SECRET) else value


def _show_pairs(door: ClusterDoor, pairs: Iterable[tuple[str, str]], like: str) -> None:
    rows = [[key, value] for key, value in sorted(pairs) if like.lower() in key.lower()]
    show(Table(("key", "value"), rows), door.output)


def _today(state: dict[str, str]) -> int | None:
    try:
        return int(state["msgPutTotalTodayNow"]) - int(state["msgPutTotalTodayMorning"])
    except (KeyError, ValueError):
        return None


def _share(ratio: str | None) -> int | None:
    try:
        return round(float(ratio or "") * 100)
    except ValueError:
        return None
