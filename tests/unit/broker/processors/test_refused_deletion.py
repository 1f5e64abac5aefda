"""A topic that the disk does not let go of stays as it was."""

import errno
from pathlib import Path

import pytest
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, running_broker, send_command

from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque


def deletion(topic: str) -> Command:
    """Build an administrator's request to delete a topic."""
    return Command(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic}, opaque=next_opaque())


@pytest.mark.parametrize("how", ["read-only", "disk"])
async def test_a_refused_deletion_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Its messages can be pulled as before."""

    def refuse(topic: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", f"/store/{topic}")

    async with running_broker(tmp_path) as broker, await RawPeer.connect(broker.port) as peer:
        assert (await peer.request(send_command())).code == ResponseCode.SUCCESS
        store = broker.context.store
        if how == "disk":
            monkeypatch.setattr(store, "delete_topic", refuse)
        else:
            monkeypatch.setattr(store, "read_only", True)
        refused = await peer.request(deletion("T"))
        assert refused.code != ResponseCode.SUCCESS
        assert refused.remark == (
            "the store is read-only: no topic can be deleted"
            if how == "read-only"
            else "topic T is not deleted, it is as before: the disk refuses: No space left on"
            " device (/store/T); make room on it, or look after it, and delete the topic again"
        )
        assert not broker.context.health.faults.counts
        monkeypatch.undo()
        assert (await peer.request(pull_command())).code == ResponseCode.SUCCESS
        assert (await peer.request(deletion("T"))).code == ResponseCode.SUCCESS
        assert (await peer.request(pull_command())).code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_deletion_that_cannot_be_saved_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic is gone, its name may come back: who asks once more has it gone for good."""

    async def refuse() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "topics.json.tmp")

    async with running_broker(tmp_path) as broker, await RawPeer.connect(broker.port) as peer:
        assert (await peer.request(send_command())).code == ResponseCode.SUCCESS
        monkeypatch.setattr(broker.context.tables.topics.file, "flush", refuse)
        refused = await peer.request(deletion("T"))
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert refused.remark == (
            "topic T is deleted, but a restart may bring its name or offsets back: the disk"
            " refuses: No space left on device (topics.json.tmp); make room on it, or look after"
            " it, and delete the topic again"
        )
        monkeypatch.undo()
        assert (await peer.request(deletion("T"))).code == ResponseCode.SUCCESS
        assert '"T"' not in broker.context.tables.topics.file.path.read_text()
