"""Transactions where users are asked: the half message's own topic decides who may end it."""

from pathlib import Path

import pytest
from support.features.access import Asked, asking_broker, signed
from support.features.transactions import transactions
from support.raw_peer import RawPeer
from support.waiting import until

from aerobee.remoting.bodies import HeartbeatData, ProducerData, encode_body
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import RequestCode as Code
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.remoting.message.record import decode_record, iter_records
from aerobee.remoting.words import HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC

DENIED = ResponseCode.NO_PERMISSION
HALF = "UNIQ_KEY\x01H1\x02TRAN_MSG\x01true\x02PGROUP\x01p\x02"


async def half_of(asked: Asked) -> dict[str, str | int]:
    """Begin a transaction of the topic `t`; return what names it in an END, but for its topic."""
    half = await asked.root.send("t", b"what others wrote", f=4, g=wall_clock_ms(), i=HALF)
    assert half.code == 0, half.remark
    return {
        "producerGroup": "p", "tranStateTableOffset": half.ext["queueOffset"],
        "commitLogOffset": int(half.ext["msgId"][16:], 16), "commitOrRollback": 8,
        "msgId": "H1", "transactionId": half.ext["transactionId"],
    }  # fmt: skip


async def beat(peer: RawPeer, name: str) -> None:
    """Be a producer of the group `p`."""
    body = encode_body(
        HeartbeatData(client_id=name, producer_data_set=[ProducerData(group_name="p")])
    )
    ext = signed(name, {}, body)
    reply = await peer.request(Command(Code.HEART_BEAT, ext, body, opaque=next_opaque()))
    assert (reply.code, reply.is_response) == (0, True), reply.remark


@pytest.mark.parametrize("topic", [None, "", HALF_TOPIC, "mine"])
async def test_who_may_not_send_to_its_topic_ends_no_transaction(
    tmp_path: Path, topic: str | None
) -> None:
    """Whatever topic the END names, and also where the half message is not open any more."""
    async with asking_broker(tmp_path) as asked:
        end = await half_of(asked)
        mallory = await asked.with_rights("mallory", "Topic:mine Pub", f"Topic:{HALF_TOPIC} Pub")
        forged = end | ({} if topic is None else {"topic": topic})
        assert (await mallory.ask(Code.END_TRANSACTION, forged)).code == DENIED
        assert asked.live.broker.store.queue("t", 0).max_offset == 0
        assert (await asked.root.ask(Code.END_TRANSACTION, end)).code == 0
        assert asked.live.broker.store.queue("t", 0).max_offset == 1
        assert (await mallory.ask(Code.END_TRANSACTION, forged)).code == DENIED


async def test_clients_that_name_no_topic_end_their_own(tmp_path: Path) -> None:
    """As those of RocketMQ 4.x do."""
    async with asking_broker(tmp_path) as asked:
        end = await half_of(asked)
        ann = await asked.with_rights("ann", "Topic:t Pub")
        assert (await ann.ask(Code.END_TRANSACTION, end)).code == 0
        assert asked.live.broker.store.queue("t", 0).max_offset == 1


async def test_only_who_may_send_to_its_topic_is_shown_a_half_message(tmp_path: Path) -> None:
    """A heartbeat of a producer needs no right, and a question has the message in it."""
    soon = {"transaction_time_out": 50, "transaction_check_interval": 100}
    async with asking_broker(tmp_path, **soon) as asked:
        await asked.with_rights("mallory", "Topic:mine Pub")
        await asked.with_rights("ann", "Topic:t Pub")
        port, checks = asked.live.broker.port, transactions(asked.live.broker).checks
        async with await RawPeer.connect(port) as stranger, await RawPeer.connect(port) as own:
            await beat(stranger, "mallory")
            await half_of(asked)
            await until(lambda: checks.counts["t"] > 0, what="its producers were to be asked")
            await beat(stranger, "mallory")  # the first frame that comes is the answer
            await beat(own, "ann")
            question = await own.read(30)
            assert question.code == Code.CHECK_TRANSACTION_STATE
            assert decode_record(question.body).body == b"what others wrote"
            await beat(stranger, "mallory")


async def test_who_may_not_change_its_topic_resumes_no_transaction(tmp_path: Path) -> None:
    """323, which may name no topic: it says by its position what it is about."""
    soon = {"transaction_time_out": 50, "transaction_check_interval": 100}
    async with asking_broker(tmp_path, **soon, transaction_check_max=1) as asked:
        store = asked.live.broker.store
        await half_of(asked)
        given_up = store.queue(TRANS_CHECK_MAX_TIME_TOPIC, 0)
        await until(lambda: given_up.max_offset, what="it is given up")
        pulled = await asked.root.pull(TRANS_CHECK_MAX_TIME_TOPIC, "g")
        (record,) = iter_records(pulled.body)
        fields = {"msgId": f"7F00000100002A9F{record.position:016X}"}
        for rights in ("Cluster:* Get", "Topic:mine Update"):
            mallory = await asked.with_rights(rights[:5], rights)
            for named in ({}, {"topic": "mine"}):
                reply = await mallory.ask(Code.RESUME_CHECK_HALF_MESSAGE, fields | named)
                assert reply.code == DENIED
        assert (await asked.root.ask(Code.RESUME_CHECK_HALF_MESSAGE, fields)).code == 0
