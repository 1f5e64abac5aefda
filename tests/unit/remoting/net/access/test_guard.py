"""Both questions, in RocketMQ's words."""

from typing import Any

import pytest

from aerobee.remoting.bodies import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.net.access import guard as guards
from aerobee.remoting.net.access.book import AccessBook
from aerobee.remoting.net.access.guard import Guard, Refusal
from aerobee.remoting.net.access.guesses import BURST
from aerobee.remoting.net.access.policies import Action, Need, topic
from aerobee.remoting.net.access.rules import Rules
from aerobee.remoting.net.access.signature import ACCESS_KEY, SIGNATURE, signature

HOST = "10.1.2.3"
CODE = RequestCode.SEND_MESSAGE_V2


def signed(name: str, secret: str, code: int = CODE, **fields: str) -> Command:
    """A request that a user has signed."""
    ext = {ACCESS_KEY: name, **fields}
    ext[SIGNATURE] = signature(secret.encode(), ext, b"body")
    return Command(code, ext, b"body")


def allow(book: AccessBook, name: str, resource: str, *actions: str) -> None:
    """Give a user a right."""
    entry = PolicyEntryInfo(resource=resource, actions=list(actions), decision="Allow")
    book.put_acl(f"User:{name}", AclInfo(policies=[PolicyInfo(entries=[entry])]))


def make(**rules: Any) -> Guard:
    """A guard of two users, who asks for `b`."""
    book = AccessBook()
    book.create_user(UserInfo(username="root", password="toor", user_type="super"))
    book.create_user(UserInfo(username="ann", password="secret"))
    asked = {"authenticates": True, "authorizes": True} | rules
    return Guard(
        book, Rules(**asked), lambda command: [Need(topic(command.ext["b"]), (Action.PUB,))]
    )


def refusal(guard: Guard, command: Command) -> Refusal:
    """Have a request refused."""
    with pytest.raises(Refusal) as error:
        guard.check(HOST, command)
    assert error.value.code == ResponseCode.NO_PERMISSION
    return error.value


def test_who_signs_and_may_passes() -> None:
    """A super user is asked no policy."""
    guard = make()
    assert guard.check(HOST, signed("root", "toor", b="t")) == "root"
    allow(guard.book, "ann", "Topic:t", "Pub")
    assert guard.check(HOST, signed("ann", "secret", b="t")) == "ann"
    assert guard.refused == 0


def test_an_unknown_user_and_a_wrong_signature_are_told_the_same() -> None:
    """And a disabled user with a wrong signature is, too."""
    guard = make()
    guard.book.update_user(UserInfo(username="ann", user_status="disable"))
    texts = {
        str(refusal(guard, command))
        for command in (
            signed("nobody", "x", b="t"),
            signed("ann", "x", b="t"),
            signed("root", "x", b="t"),
            Command(CODE, {ACCESS_KEY: "root", "b": "t"}),
        )
    }
    assert texts == {"check signature failed."}
    assert str(refusal(guard, signed("ann", "secret", b="t"))) == "User:ann is disabled."
    assert str(refusal(guard, Command(CODE, {"b": "t"}))) == "username cannot be null."


def test_an_unknown_user_costs_a_signature_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or time would tell who is known: each request is signed anew once, whoever it is from."""
    secrets: list[bytes] = []

    def is_signed(secret: bytes, *rest: Any) -> bool:
        secrets.append(secret)
        return False

    monkeypatch.setattr(guards, "is_signed", is_signed)
    guard = make()
    refusal(guard, signed("ann", "x", b="t"))
    refusal(guard, signed("nobody", "x", b="t"))
    assert len(secrets) == 2
    assert secrets[0] == b"secret"


def test_refusals_say_what_and_from_where() -> None:
    """RocketMQ's words, with what the user wanted."""
    guard = make()
    command = signed("ann", "secret", b="t")
    begin = f"User:ann has no permission to access Topic:t from {HOST}, "
    assert str(refusal(guard, command)) == begin + "no matched policies."
    entry = PolicyEntryInfo(resource="Topic:*", actions=["All"], decision="Deny")
    guard.book.put_acl("User:ann", AclInfo(policies=[PolicyInfo(entries=[entry])]))
    assert str(refusal(guard, command)) == begin + "the decision is deny."
    assert guard.refused == 2


def test_a_change_counts_at_once() -> None:
    """Of rights, of a secret, of the user himself."""
    guard = make()
    command = signed("ann", "secret", b="t")
    refusal(guard, command)
    allow(guard.book, "ann", "Topic:t", "Pub")
    guard.check(HOST, command)
    guard.book.delete_acl("User:ann", None, "Topic:t")
    refusal(guard, command)
    guard.book.update_user(UserInfo(username="ann", user_type="Super"))
    guard.check(HOST, command)
    guard.book.update_user(UserInfo(username="ann", password="another"))
    refusal(guard, command)
    guard.check(HOST, signed("ann", "another", b="t"))
    guard.book.delete_user("ann")
    refusal(guard, signed("ann", "another", b="t"))


def test_whitelists_ask_one_question_less() -> None:
    """Each of its own; who has not been asked has no name."""
    code = frozenset({CODE})
    assert make(open_codes=code, free_codes=code).check(HOST, Command(CODE, {"b": "t"})) == ""
    assert make(free_codes=code).check(HOST, signed("ann", "secret", b="t")) == "ann"
    guard = make(open_codes=code)
    text = "Authorization failed. Please verify your access rights and try again."
    assert str(refusal(guard, Command(CODE, {"b": "t"}))) == text


def test_authorization_alone_believes_the_name() -> None:
    """As RocketMQ does; a disabled or unknown user may nothing all the same."""
    guard = make(authenticates=False)
    allow(guard.book, "ann", "Topic:t", "Pub")
    command = Command(CODE, {ACCESS_KEY: "ann", "b": "t"})
    assert guard.check(HOST, command) == ""
    guard.book.update_user(UserInfo(username="ann", user_status="disable"))
    assert str(refusal(guard, command)) == "User:ann is disabled."
    unknown = Command(CODE, {ACCESS_KEY: "x" * 1000, "b": "t"})
    assert str(refusal(guard, unknown)) == f"User:{'x' * 255}... is not found."


def test_authentication_alone_asks_no_policy() -> None:
    """Whoever has signed may all."""
    assert make(authorizes=False).check(HOST, signed("ann", "secret", b="t")) == "ann"


def test_many_wrong_signatures_have_to_wait() -> None:
    """A right one never."""
    guard = make()
    delays = [refusal(guard, signed("ann", "x", b="t")).delay_s for _ in range(BURST + 2)]
    assert delays[:BURST] == [0.0] * BURST
    assert 0 < delays[BURST] < delays[BURST + 1]
    guard.check(HOST, signed("root", "toor", b="t"))


def test_what_is_kept_of_answers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ever new topics of a client, and huge names, take no more memory."""
    monkeypatch.setattr(guards, "DECISIONS_MAX", 10)
    guard = make()
    for number in range(25):
        refusal(guard, signed("ann", "secret", b=f"t{number}"))
        assert len(guard._decisions) <= 10
    guard._decisions.clear()
    refusal(guard, signed("ann", "secret", b="t" * 300))
    assert not guard._decisions
