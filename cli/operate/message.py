"""`aerobee message`: find, browse, tail, peek, produce, copy, move."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final

import click

from aerobee.admin.copies import TopicCopy, as_it_is
from aerobee.admin.groups import MARK_SUFFIX
from aerobee.admin.reading import MessageFilter, QueueSpan
from aerobee.cli.operate.cluster_door import (
    ClusterDoor,
    asks_cluster,
    broker_option,
    confirm,
    yes_option,
)
from aerobee.cli.operate.copies_run import ahead_of, check_place, copy_name, run_copy
from aerobee.cli.operate.jsonl import ProducedLines
from aerobee.cli.operate.messages_shown import MessagePrinter
from aerobee.cli.operate.moments import PointInTime
from aerobee.cli.operate.output import EXIT_INCOMPLETE
from aerobee.cli.operate.track import track
from aerobee.cli.program import examples
from aerobee.cli.progress import progress_bar
from aerobee.client import Producer
from aerobee.client.errors import InvalidUse
from aerobee.client.received import ReceivedMessage

LIMIT: Final = 100
BAR_AFTER_S: Final = 2.0


@click.group(
    epilog=examples(
        "aerobee message browse orders --since 15m --tag paid",
        "aerobee message tail orders -o json | jq .body",
        "aerobee message find orders --key order-1",
        'echo \'{"body": "hello"}\' | aerobee message produce orders',
    )
)
def message() -> None:
    """Messages: look for them, read along, send, copy.

    With -o json each message is one line of JSON, which `produce` takes.
    """


def _filter_options(command: Any) -> Any:
    for option in (
        click.option("--until", type=PointInTime(), help="Stored at this time or before."),
        click.option("--since", type=PointInTime(), help="Stored at this time or later."),
        click.option("--text", help="This text is in the body."),
        click.option("--key", help="This is one of its keys."),
        click.option("--sql", help="An SQL92 expression; where enablePropertyFilter is on."),
        click.option("--tag", default="*", help="Tags, as 'new || paid'."),
    ):
        command = option(command)
    return command


queue_option = click.option("-q", "--queue", "queue_id", type=click.IntRange(0), help="This queue.")


def _filter(
    tag: str, sql: str | None, key: str | None, text: str | None, **times: int | None
) -> MessageFilter:
    return MessageFilter(
        tags=tag,
        sql=sql,
        key=key,
        text=None if text is None else text.encode(),
        since_ms=times.get("since"),
        until_ms=times.get("until"),
    )


@message.command(
    epilog=examples(
        "aerobee message find orders --key order-1",
        "aerobee message find orders --id 7F00000100002A9F0000000000000000 -o json",
    )
)
@click.argument("topic")
@click.option("--key", help="A business key.")
@click.option("--id", "message_id", help="The client's id of a message, or the broker's.")
@click.option("--limit", type=click.IntRange(1), default=LIMIT, show_default=True)
@asks_cluster
async def find(
    door: ClusterDoor, topic: str, key: str | None, message_id: str | None, limit: int
) -> None:
    """Find messages of TOPIC by a key or an id, in the brokers' index.

    Exit code 4: some brokers did not answer, or may have more than --limit.
    """
    async with Producer("aerobee-tools", namesrv=door.namesrv, client=door.settings) as producer:
        found = await producer.find(topic, key=key, message_id=message_id, messages_max=limit)
    with MessagePrinter(door.output) as printer:
        for each in [*found.messages, *found.unreadable]:
            printer.show(each)
    for name, error in found.failed.items():
        click.echo(f"warning: nothing from {name}: {error}", err=True)
    if not found.complete:
        click.echo("warning: there may be more", err=True)
        raise SystemExit(EXIT_INCOMPLETE)


message.add_command(track)


@message.command(
    epilog=examples(
        "aerobee message browse orders                                  # the oldest 100",
        "aerobee message browse orders --newest --limit 10",
        "aerobee message browse orders --since 2026-11-21T18:30 --until 2026-11-21T19:00",
        "aerobee message browse orders -b broker-a -q 3 --offset 4711 --limit 1",
        "aerobee message browse orders --sql \"amount > 100 AND country = 'DE'\"",
        "aerobee message browse orders --text order-17 --limit 0 -o json > found.jsonl",
    )
)
@click.argument("topic")
@_filter_options
@click.option("--newest", is_flag=True, help="The newest ones instead of the oldest.")
@click.option("--limit", type=click.IntRange(0), default=LIMIT, show_default=True,
              help="At most so many; 0: all.")  # fmt: skip
@click.option("--offset", type=click.IntRange(0), help="From this offset of the queues on.")
@queue_option
@broker_option
@asks_cluster
async def browse(
    door: ClusterDoor,
    topic: str,
    newest: bool,
    limit: int,
    offset: int | None,
    queue_id: int | None,
    broker: str | None,
    **given: Any,
) -> None:
    """Show messages of TOPIC in the order of their times; no group notices.

    Dead letters and retries are topics, too: %DLQ%group, %RETRY%group. The --newest of a tag, key,
    text or time are looked for in all of the topic, or what --since leaves of it.
    """
    wanted = _filter(**given)
    if newest and not limit:
        raise InvalidUse("--newest needs a --limit")
    # the newest of a queue need not be among those that are wanted
    all_count = wanted == MessageFilter(since_ms=wanted.since_ms)
    async with door.admin() as admin:
        spans = await admin.message.spans(
            topic,
            broker=broker,
            queue_id=queue_id,
            since_ms=wanted.since_ms,
            newest=limit if newest and all_count else None,
            first=offset,
        )
        with MessagePrinter(door.output) as printer, _scanned(spans) as seen:
            shown: list[ReceivedMessage] = []
            async for each in admin.message.browse(spans, wanted, seen=seen):
                if newest:
                    shown.append(each)
                    del shown[:-limit]
                else:
                    printer.show(each)
                    if printer.count == limit:
                        break
            for each in shown:
                printer.show(each)


@message.command(epilog=examples("aerobee message tail orders", "aerobee message tail o --tag new"))
@click.argument("topic")
@_filter_options
@click.option("--limit", type=click.IntRange(0), default=0, help="End after so many.")
@queue_option
@broker_option
@asks_cluster
async def tail(
    door: ClusterDoor,
    topic: str,
    limit: int,
    queue_id: int | None,
    broker: str | None,
    **given: Any,
) -> None:
    """Show messages of TOPIC as they come, until Ctrl-C; no group notices.

    With --since those from that time on come first.
    """
    wanted = _filter(**given)
    async with door.admin() as admin:
        spans = await admin.message.spans(topic, broker=broker, queue_id=queue_id)
        with MessagePrinter(door.output, streams=True) as printer:
            if wanted.since_ms is not None:
                earlier = await admin.message.spans(
                    topic, broker=broker, queue_id=queue_id, since_ms=wanted.since_ms
                )
                async for each in admin.message.browse(_ending_at(earlier, spans), wanted):
                    printer.show(each)
                    if printer.count == limit:
                        return
            async for each in admin.message.follow(spans, wanted):
                printer.show(each)
                if printer.count == limit:
                    return


@message.command(epilog=examples("aerobee message peek orders billing --limit 5"))
@click.argument("topic")
@click.argument("group")
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True)
@asks_cluster
async def peek(door: ClusterDoor, topic: str, group: str, limit: int) -> None:
    """Show what GROUP would get next from TOPIC, and leave it there."""
    async with door.admin() as admin:
        rest = await ahead_of(admin, group, topic)
        with MessagePrinter(door.output) as printer:
            async for each in admin.message.browse(rest, MessageFilter()):
                printer.show(each)
                if printer.count == limit:
                    break


@message.command(
    epilog=examples(
        'echo \'{"body": "hello", "tags": "new"}\' | aerobee message produce orders',
        "aerobee message produce orders --file found.jsonl",
        "seq 100 | aerobee message produce orders --raw --tag count",
    )
)
@click.argument("topic")
@click.option("--file", "source", type=click.File("rb"), default="-",
              help="Where the lines are. [default: standard input]")  # fmt: skip
@click.option("--raw", is_flag=True, help="Each line is a body, not JSON.")
@click.option("--tag", help="The tag of those that have none.")
@click.option("--skip", type=click.IntRange(0), default=0, help="Leave out so many lines first.")
@asks_cluster
async def produce(
    door: ClusterDoor, topic: str, source: IO[bytes], raw: bool, tag: str | None, skip: int
) -> None:
    """Send each line of a file as a message to TOPIC, one after the other.

    A line is an object with body (a text), body_base64 or json (any value), and, where wanted,
    tags, keys, properties, delay_level and sharding_key: lines of one sharding_key go to one queue.
    What else `browse -o json` writes is passed over. After an error --skip goes on behind the last
    line that was sent.
    """
    lines = ProducedLines(source, topic, raw=raw, tag=tag, skip=skip)
    try:
        async with Producer("aerobee-tools", namesrv=door.namesrv, client=door.settings) as out:
            with progress_bar("sending", after_s=BAR_AFTER_S) as progress:
                for each, key in lines:
                    await out.send(each, key=key)
                    lines.sent += 1
                    progress(lines.sent, 0)
    finally:
        click.echo(f"{topic}: {lines.sent} sent", err=True)
        if lines.is_cut:
            click.echo(f"to go on: --skip {skip + lines.sent}", err=True)


def _copy_options(command: Any) -> Any:
    for option in (
        click.option("--limit", type=click.IntRange(1), help="At most so many."),
        click.option(
            "--to-credentials",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="File that says who asks the other cluster, as --credentials. [default: the same]",
        ),
        click.option("--to-namesrv", help="Nameservers of the other cluster."),
    ):
        command = option(command)
    return command


@message.command(
    epilog=examples(
        "aerobee message copy orders orders-test",
        "aerobee message copy orders orders --to-namesrv 10.1.0.1:9876 --name orders-to-b",
    )
)
@click.argument("source")
@click.argument("target")
@_copy_options
@click.option(
    "--name", help="Name under which it keeps its place; to another cluster it is needed."
)
@click.option("--again", is_flag=True, help="From the beginning: forget what was copied before.")
@asks_cluster
async def copy(
    door: ClusterDoor,
    source: str,
    target: str,
    name: str | None,
    to_namesrv: str | None,
    to_credentials: Path | None,
    limit: int | None,
    again: bool,
) -> None:
    """Send the messages of topic SOURCE to topic TARGET, which has to be there.

    Each once, with its body, tag, keys and properties, queue by queue in order. The same command
    goes on where it ended, also after an interruption, and later copies what is new: its place is
    kept as that of a consumer group, --name.
    """
    name = copy_name(source, target, name, to_namesrv)
    there = door.other(to_namesrv, to_credentials)
    async with door.admin() as admin, there.admin() as other:
        await check_place(admin, other, name)
        if again:
            await admin.group.delete(name)
            await other.group.delete(name + MARK_SUFFIX)
        job = TopicCopy(admin.copy_end, other.copy_end, source, name, as_it_is(target))
        await run_copy(there, job, limit)


@message.command(epilog=examples("aerobee message move orders orders-slow --group billing"))
@click.argument("source")
@click.argument("target")
@click.option("--group", required=True, help="The group whose messages these are.")
@_copy_options
@yes_option
@asks_cluster
async def move(
    door: ClusterDoor,
    source: str,
    target: str,
    group: str,
    limit: int | None,
    to_namesrv: str | None,
    to_credentials: Path | None,
    yes: bool,
) -> None:
    """Send what GROUP has not consumed of SOURCE to TARGET, and let it pass over that.

    The group must have no connected members. Other groups have the messages as before.
    """
    if source == target and to_namesrv is None:
        raise InvalidUse(f"source and target are {source!r}")
    there = door.other(to_namesrv, to_credentials)
    async with door.admin() as admin, there.admin() as other:
        count = sum(each.end - each.first for each in await ahead_of(admin, group, source))
        confirm(f"Send {count:,} messages to {target}, and let {group} pass over them?", yes)
        job = TopicCopy(admin.copy_end, other.copy_end, source, group, as_it_is(target))
        await run_copy(there, job, limit)


@contextlib.contextmanager
def _scanned(spans: list[QueueSpan]) -> Iterator[Callable[[int], None]]:
    """Show a bar over all messages of the queues, for what is looked at."""
    total = sum(span.end - span.first for span in spans)
    done = 0
    with progress_bar("looking", after_s=BAR_AFTER_S) as progress:

        def seen(count: int) -> None:
            nonlocal done
            done += count
            progress(done, total)

        yield seen


def _ending_at(earlier: list[QueueSpan], spans: list[QueueSpan]) -> list[QueueSpan]:
    """Return spans that end where the others do."""
    ends = {span.queue: span.end for span in spans}
    return [
        QueueSpan(each.queue, each.address, each.first, ends[each.queue])
        for each in earlier
        if each.queue in ends
    ]
