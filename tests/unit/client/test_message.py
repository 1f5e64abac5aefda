"""What may be sent, and how its properties travel."""

import pytest

from aerobee.client.errors import InvalidMessage
from aerobee.client.message import Message, MessageQueue, check_message, check_name, joined_keys
from aerobee.remoting.message.properties import parse_properties


def test_properties_travel_with_rocketmqs_own() -> None:
    """Tag, keys, delay and the client's id join the user's properties."""
    message = Message("t", b"x", tags="a", keys=["k1", "k2"], delay_level=3, properties={"x": "y"})
    properties = parse_properties(message.wire_properties("ID"))
    assert properties == {"x": "y", "UNIQ_KEY": "ID", "KEYS": "k1 k2", "DELAY": "3", "TAGS": "a"}
    assert message.properties == {"x": "y"}
    assert joined_keys(properties) == ["k1", "k2"]


def test_a_plain_message_has_only_its_id() -> None:
    """Without tag and keys nothing but the id is written."""
    assert Message("t", b"x").wire_properties("ID") == "UNIQ_KEY\x01ID\x02"


@pytest.mark.parametrize(
    "message",
    [
        Message("t", b"x", tags="a\x02b"),
        Message("t", b"x", keys="a\x01"),
        Message("t", b"x", properties={"a\x01b": "c"}),
        Message("t", b"x", properties={"a": "c\x02"}),
    ],
)
def test_separators_in_properties_are_refused(message: Message) -> None:
    """A reader would see other properties than were meant."""
    with pytest.raises(InvalidMessage, match="separator"):
        message.wire_properties("ID")


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (Message("t", b"x", properties={"UNIQ_KEY": "mine"}), "UNIQ_KEY"),
        (Message("t", b"x", tags="a", properties={"TAGS": "b"}), "TAGS"),
        (Message("t", b"x", keys=["a"], properties={"KEYS": "b"}), "KEYS"),
        (Message("t", b"x", delay_level=1, properties={"DELAY": "2"}), "DELAY"),
    ],
)
def test_no_property_is_said_twice(message: Message, name: str) -> None:
    """A broker would filter by one of them, and its readers see the other."""
    with pytest.raises(InvalidMessage, match=f"property '{name}' is said twice"):
        message.wire_properties("ID")


def test_rocketmqs_names_may_be_said_once() -> None:
    """By properties alone, as tools do that send a message again."""
    properties = {"TAGS": "a", "KEYS": "k", "DELAY": "2", "TIMER_DELAY_SEC": "5"}
    wire = Message("t", b"x", properties=properties).wire_properties("ID")
    assert parse_properties(wire) == properties | {"UNIQ_KEY": "ID"}


@pytest.mark.parametrize("properties", [{"": "a"}, {"a": "b", "c": ""}])
def test_empty_properties_are_refused(properties: dict[str, str]) -> None:
    """Readers leave them out."""
    with pytest.raises(InvalidMessage, match="its name or value is empty"):
        Message("t", b"x", properties=properties).wire_properties("ID")


def test_too_long_properties_are_refused() -> None:
    """Their length travels in two bytes."""
    with pytest.raises(InvalidMessage, match="40015 bytes, at most 32767"):
        Message("t", b"x", properties={"a": "ü" * 10_000 + "x" * 20_000}).wire_properties("ID")


def test_half_a_character_is_refused() -> None:
    """Python's text can hold half of a UTF-16 pair; no other language's on the wire can."""
    with pytest.raises(InvalidMessage, match="half a character"):
        Message("t", b"x", keys="caf\u00e9 \ud83d").wire_properties("ID")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("", "is empty"), (" ", "is empty"), ("a b", "has ' '"), ("ä", "has 'ä'"), ("x" * 128, "128")],
)
def test_bad_names_are_refused(name: str, complaint: str) -> None:
    """The text says what is wrong."""
    with pytest.raises(InvalidMessage, match=complaint):
        check_name("topic", name, 127)


def test_good_names_are_accepted() -> None:
    """All that RocketMQ allows, and its own long retry topics."""
    for name in ("a", "A-b_c%d|9", "%RETRY%" + "x" * 130):
        check_name("topic", name, 127)


def test_bodies_have_limits() -> None:
    """No broker takes an empty body or one over the limit."""
    check_message(Message("t", b"1234"), 4)
    with pytest.raises(InvalidMessage, match="empty body"):
        check_message(Message("t", b""), 4)
    with pytest.raises(InvalidMessage, match="5 bytes, the limit is 4"):
        check_message(Message("t", b"12345"), 4)


def test_queues_sort_by_topic_broker_and_number() -> None:
    """The order that all members of a group rely on."""
    queues = [MessageQueue("t", "b", 0), MessageQueue("t", "a", 10), MessageQueue("t", "a", 9)]
    assert sorted(queues) == [queues[2], queues[1], queues[0]]
