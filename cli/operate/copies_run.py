"""Copies of messages as commands run them: with a bar, and a word on how they ended."""

from typing import Final

import click

from aerobee.admin.client import AdminClient
from aerobee.admin.copies import GROUP_MAX, CopyCounts, TopicCopy, with_producer
from aerobee.admin.groups import COPY_PREFIX, MARK_SUFFIX
from aerobee.admin.reading import QueueSpan
from aerobee.cli.operate.cluster_door import ClusterDoor
from aerobee.cli.progress import progress_bar
from aerobee.client import Producer
from aerobee.client.errors import InvalidUse

BAR_AFTER_S: Final = 2.0


async def run_copy(target: ClusterDoor, job: TopicCopy, limit: int | None) -> None:
    """Copy, with a bar, and say what was done, however it ends."""

    async def work(producer: Producer) -> CopyCounts:
        with progress_bar("copying", after_s=BAR_AFTER_S) as progress:
            return await job.run(producer, limit=limit, progress=progress)

    whole = False
    try:
        await with_producer(target.namesrv, target.settings, work)
        whole = True
    finally:
        counts = job.counts
        text = f"{counts.sent} sent"
        for count, what in (
            (counts.there, "were there from before"),
            (counts.left_out, "left out"),
            (counts.unreadable, "unreadable"),
        ):
            text += f", {count} {what}" if count else ""
        click.echo(text if whole else f"{text}; not all: the same command goes on", err=not whole)


async def check_place(source: AdminClient, target: AdminClient, name: str) -> None:
    """Raise InvalidUse for the name of a group that consumes: a copy would move its offsets."""
    if name.startswith(COPY_PREFIX):
        return
    groups = (await source.group.configs()).or_raise()
    marks = (await target.group.configs()).or_raise()
    if any(name in each for each in groups.values()) and not any(
        name + MARK_SUFFIX in each for each in marks.values()
    ):
        raise InvalidUse(
            f"there is a group {name!r}, and no copy keeps its place there: choose another --name"
        )


async def ahead_of(admin: AdminClient, group: str, topic: str) -> list[QueueSpan]:
    """Return what a group has yet to consume of a topic; raises InvalidUse for one not there."""
    described = await admin.group.describe(group, owners=False)
    committed = {
        (each.broker, each.queue_id): each.committed
        for each in described.queues
        if each.topic == topic
    }
    return [
        QueueSpan(
            each.queue,
            each.address,
            min(max(each.first, committed.get(each.queue[1:], 0)), each.end),
            each.end,
        )
        for each in await admin.message.spans(topic)
    ]


def copy_name(source: str, target: str, name: str | None, to_namesrv: str | None) -> str:
    """Return the name under which a copy keeps its place; raises InvalidUse for one that cannot."""
    if to_namesrv is None and source == target:
        raise InvalidUse(f"source and target are {source!r}")
    if name is None and to_namesrv is not None:
        raise InvalidUse("a copy to another cluster needs a --name, which stays the same")
    name = name or f"{COPY_PREFIX}{source}-to-{target}".replace("%", "-")
    if len(name) > GROUP_MAX:
        raise InvalidUse(f"{name!r} is longer than {GROUP_MAX} characters: give a --name")
    return name
