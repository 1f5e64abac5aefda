"""Tags are compared as text, versions only grow."""

import pytest

from aerobee.client.cluster.decoding import decode_messages
from aerobee.client.errors import InvalidUse
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.subscriptions import parse_subscription
from aerobee.remoting.message.record import Record, encode_record
from aerobee.remoting.message.tags import java_string_hash
from aerobee.remoting.words import SQL92


def test_tags_are_read_as_rocketmq_reads_them() -> None:
    """Blanks do not count, empty parts neither, and the hashes go with them."""
    subscription = parse_subscription("t", " a ||b|| ")
    body = subscription.body()
    assert (body.tags_set, body.sub_string) == (["a", "b"], " a ||b|| ")
    assert body.code_set == sorted([java_string_hash("a"), java_string_hash("b")])
    assert parse_subscription("t", "").body().sub_string == "*"


def test_equal_hashes_do_not_fool_the_filter() -> None:
    """ "Aa" and "BB" have the same Java hash; only the wanted one is handed on."""
    assert java_string_hash("Aa") == java_string_hash("BB")
    queue = MessageQueue("t", "broker-a", 0)
    tags = [b"Aa", b"BB", b"", b"Aa"]
    records = [
        Record(topic="t", queue_offset=at, body=b"x", properties=b"TAGS\x01" + tag + b"\x02")
        for at, tag in enumerate(tags)
    ]
    messages = decode_messages(b"".join(map(encode_record, records)), queue)
    kept = parse_subscription("t", "Aa").select(messages)
    assert [message.queue_offset for message in kept] == [0, 3]
    assert parse_subscription("t").select(messages) == messages


def test_sql_is_passed_on_unfiltered() -> None:
    """The broker evaluates it; the client filters nothing more."""
    subscription = parse_subscription("t", sql="a > 1")
    body = subscription.body()
    assert (body.expression_type, body.sub_string, body.tags_set) == (SQL92, "a > 1", [])


@pytest.mark.parametrize(
    ("tags", "sql"), [("||", None), (" || ", None), ("a", "b > 1"), ("*", " ")]
)
def test_nonsense_is_refused(tags: str, sql: str | None) -> None:
    """Neither an expression that names nothing nor two at once."""
    with pytest.raises(InvalidUse):
        parse_subscription("t", tags, sql)


def test_versions_grow_even_within_a_millisecond() -> None:
    """A renewed subscription is newer; pulls go on with the first version."""
    subscription = parse_subscription("t")
    first = subscription.version
    subscription.renew()
    second = subscription.version
    subscription.renew()
    assert first < second < subscription.version
    assert subscription.first_version == first
