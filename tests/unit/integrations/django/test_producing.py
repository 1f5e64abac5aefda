"""What a project sends, when its transactions commit, by one producer for each process."""

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import transaction
from django.test import override_settings

from aerobee.client.sync import ConsumeFrom, InvalidMessage, InvalidUse, LitePullConsumer, Message
from aerobee.integrations.django import producer, send, send_on_commit
from aerobee.testing import ClusterThread


def read(cluster: ClusterThread, topic: str, count: int) -> list[bytes]:
    """Return the first bodies of a topic."""
    consumer = LitePullConsumer("g", namesrv=cluster.namesrv_addr, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(topic)
    got: list[bytes] = []
    with consumer:
        while len(got) < count:
            got += [each.body for each in consumer.poll()]
    return got


def test_a_message_is_sent_when_its_transaction_commits(fresh: ClusterThread) -> None:
    """Not where that is rolled back; at once without one."""
    fresh.create_topic("committed", 1)
    with transaction.atomic():
        send_on_commit(Message("committed", b"second"), key="k")
        send(Message("committed", b"first"))
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        send_on_commit(Message("committed", b"undone"))
        raise ZeroDivisionError
    send_on_commit(Message("committed", b"third"), delay=timedelta(0))
    assert read(fresh, "committed", 3) == [b"first", b"second", b"third"]


def test_a_wrong_message_fails_before_the_commit(fresh: ClusterThread) -> None:
    """So that the transaction is undone with it."""
    with transaction.atomic():
        with pytest.raises(InvalidMessage):
            send_on_commit(Message("committed", b""))
        with pytest.raises(InvalidUse):
            send_on_commit(Message("committed", b"x"), delay=timedelta(seconds=-1))
        for wrong in (
            Message("shop.orders", b"x"),
            Message("committed", b"x", properties={"": "x"}),
            Message("committed", b"x", properties={"large": "x" * 40_000}),
        ):
            with pytest.raises(InvalidMessage):
                send_on_commit(wrong)
            with pytest.raises(InvalidMessage):
                send_on_commit(wrong, delay=timedelta(seconds=1))
        with pytest.raises(InvalidUse, match="key"):
            send_on_commit(Message("committed", b"x"), key=1.5)  # type: ignore[arg-type]


def test_a_test_that_overrides_the_settings_is_followed(fresh: ClusterThread) -> None:
    """What is sent then goes where they say, and afterwards as before."""
    first = producer()
    with override_settings(AEROBEE={"NAMESRV": fresh.namesrv_addr, "PRODUCER_GROUP": "tested"}):
        assert producer().group == "tested" and not first.started
    assert producer().group == "DEFAULT_PRODUCER"


def test_all_threads_have_one_producer(fresh: ClusterThread) -> None:
    """Made once, whoever is first; one that was closed is followed by another."""
    with ThreadPoolExecutor(8) as threads:
        made = set(threads.map(lambda _: producer(), range(32)))
    assert len(made) == 1
    first = made.pop()
    first.close()
    assert producer() is not first and producer().started


def test_a_forked_child_has_its_own(fresh: ClusterThread) -> None:
    """Both can send, before and after."""
    fresh.create_topic("forked", 1)
    send(Message("forked", b"parent"))
    child = os.fork()
    if not child:
        try:
            send(Message("forked", b"child"))
            producer().close()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    send(Message("forked", b"parent again"))
    assert read(fresh, "forked", 3) == [b"parent", b"child", b"parent again"]
