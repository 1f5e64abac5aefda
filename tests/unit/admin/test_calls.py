"""Questions to brokers: a large answer holds up nothing else of the process."""

import threading
from types import SimpleNamespace

import pytest

from aerobee.admin import AdminClient, calls
from aerobee.remoting.bodies import Body, ConsumeStats, decode_body
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.errors import AerobeeError


def progress_of(queues: int) -> bytes:
    """Return how far a group is in so many queues, as RocketMQ writes it."""
    rows = (
        b'{"brokerName":"a","queueId":%d,"topic":"orders"}:'
        b'{"brokerOffset":7,"consumerOffset":5,"lastTimestamp":0}' % number
        for number in range(queues)
    )
    return b'{"consumeTps":1.0,"offsetTable":{' + b",".join(rows) + b"}}"


async def test_a_large_answer_is_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A console beside a nameserver would let brokers wait while it reads of many queues."""
    here, readers = threading.current_thread(), []

    def noted(body_type: type[Body], data: bytes) -> Body:
        readers.append(threading.current_thread() is here)
        return decode_body(body_type, data)

    monkeypatch.setattr(calls, "decode_body", noted)
    async with AdminClient("127.0.0.1:1") as admin:
        for queues in (10, 3000):
            body = progress_of(queues)

            async def answer(*_: object, body: bytes = body, **__: object) -> SimpleNamespace:
                return SimpleNamespace(body=body)

            monkeypatch.setattr(admin.connections, "request", answer)
            found = await admin.ask_broker("a:1", RequestCode.GET_CONSUME_STATS, ConsumeStats)
            assert len(found.offset_table) == queues
        broken = progress_of(3000)[:-1]
        monkeypatch.setattr(admin.connections, "request", lambda *_, **__: answer(body=broken))
        with pytest.raises(AerobeeError, match="no ConsumeStats"):
            await admin.ask_broker("a:1", RequestCode.GET_CONSUME_STATS, ConsumeStats)
    assert readers == [True, False, False]


async def test_settings_that_cannot_be_read_are_one_brokers_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RocketMQ writes a folder as it is, which no reader of properties takes: `C:\\users`."""
    told = {"a:1": b"brokerName=a\n", "b:1": b"storePathRootDir=C:\\users\\mq\n"}
    async with AdminClient("127.0.0.1:1") as admin:

        async def answer(address: str, *_: object, **__: object) -> SimpleNamespace:
            return SimpleNamespace(body=told[address])

        monkeypatch.setattr(admin.connections, "request", answer)
        names = {"a": "a:1", "b": "b:1"}
        answers = await admin.each(names, admin.broker.settings_at)
    assert answers.found == {"a": {"brokerName": "a"}}
    assert "b:1: settings that cannot be read" in str(answers.failed["b"])
