"""Copies of messages as commands run them: with a bar, and a word on how they ended."""

from typing import Final

import click

from aerobee.admin.copies import GROUP_MAX, CopyCounts, TopicCopy, with_producer
from aerobee.admin.groups import COPY_PREFIX
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
