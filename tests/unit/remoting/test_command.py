"""The command value and its request numbers."""

from aerobee.remoting.command import (
    FLAG_ONEWAY,
    FLAG_RESPONSE,
    Codec,
    Command,
    Language,
    language_name,
    language_number,
    next_opaque,
)


def test_a_reply_finds_its_request() -> None:
    """Same number, same codec, the response bit and nothing else of the request."""
    request = Command(11, {"topic": "t"}, b"body", opaque=-5, codec=Codec.ROCKETMQ, remark="r")
    reply = request.reply(19, {"offset": "1"}, b"x", "nothing")
    assert reply == Command(
        19,
        {"offset": "1"},
        b"x",
        opaque=-5,
        flag=FLAG_RESPONSE,
        remark="nothing",
        codec=Codec.ROCKETMQ,
    )
    assert reply.is_response and not request.is_response
    assert request.reply().ext == {}


def test_one_way_requests_say_so() -> None:
    """Bit 1 of the flag."""
    assert Command(15, flag=FLAG_ONEWAY).is_oneway
    assert not Command(15).is_oneway


def test_request_numbers_are_distinct_int32() -> None:
    """Two requests in flight never share a number."""
    numbers = [next_opaque() for _ in range(100)]
    assert len(set(numbers)) == 100
    assert all(0 < number < 2**31 for number in numbers)


def test_languages_by_name_and_number() -> None:
    """Unknown ones count as OTHER, which every reader knows."""
    assert language_name(Language.NODE_JS) == "NODE_JS"
    assert language_number("GO") == Language.GO
    assert (language_name(99), language_number("COBOL")) == ("OTHER", Language.OTHER)
