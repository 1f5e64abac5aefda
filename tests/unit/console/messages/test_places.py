"""Addresses of messages."""

from aerobee.client.message import MessageQueue
from aerobee.console.messages.places import message_place, message_url


def test_a_place_survives_its_address() -> None:
    """Names of retry topics too, which have percent signs."""
    for topic in ("orders", "%RETRY%a-group", "%DLQ%g"):
        url = message_url(MessageQueue(topic, "broker-a", 3), 17)
        assert url.count("/") == 5 and "%%" not in url
        assert message_place(url) == (topic, "broker-a", 3, 17)
    assert message_url(MessageQueue("t", "b", 0), 1, "/body") == "/messages/t/b/0/1/body"


def test_other_addresses_are_no_places() -> None:
    """Of this console, or of elsewhere."""
    for url in ("", "/messages", "/messages/t/b/0/x", "//evil/messages/t/b/0/1"):
        assert message_place(url) is None
