"""Static topics of a broker that asks: pulls of users are read by the mapping, too."""

from pathlib import Path

from support.features.access import Asked, asking_broker
from support.features.static_topics import TOPIC, Piece, bodies, detail

from aerobee.remoting.codes import RequestCode as Code
from aerobee.remoting.command import Command

MADE = {
    "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6,
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false", "force": "false",
}  # fmt: skip


async def map_queue(asked: Asked) -> None:
    """Let the logical queue 1 be the physical queue 0."""
    name = asked.live.broker.settings.broker_name
    mapping = detail(name, 1, {1: [Piece(name, 0)]})
    reply = await asked.root.ask(Code.UPDATE_AND_CREATE_STATIC_TOPIC, MADE, mapping)
    assert reply.code == 0, reply.remark


async def test_pulls_of_users_are_of_logical_queues(tmp_path: Path) -> None:
    """From the first mapping on, and after a change of settings, and of ordinary topics as ever."""
    async with asking_broker(tmp_path) as asked:
        ann = await asked.with_rights("ann", "Topic:* Pub Sub", "Group:g Sub")

        async def pulled() -> Command:
            header = {
                "consumerGroup": "g", "topic": TOPIC, "queueId": 1, "queueOffset": 0,
                "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0,
                "subscription": "*", "subVersion": 0,
            }  # fmt: skip
            return await ann.ask(Code.PULL_MESSAGE, header)

        assert (await ann.send("t", b"plain")).code == 0
        assert bodies(await ann.pull("t", "g")) == [b"plain"]
        await map_queue(asked)
        sent = await ann.send(TOPIC, b"mapped", e=1)
        assert (sent.code, sent.ext["queueId"]) == (0, "1")
        for _ in range(3):
            assert bodies(await pulled()) == [b"mapped"]
            assert bodies(await ann.pull("t", "g")) == [b"plain"]
        change = b"maxTransferCountOnMessageInMemory=16\n"
        assert (await asked.root.ask(Code.UPDATE_BROKER_CONFIG, {}, change)).code == 0
        assert bodies(await pulled()) == [b"mapped"]
