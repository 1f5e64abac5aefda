"""What a file of RocketMQ 4.x says, and what is told of one that cannot be read."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerobee.broker.features.access.plain_acl import PlainAcl, PlainAclError, read_plain_acl
from aerobee.broker.features.access.plain_addresses import networks_of
from aerobee.remoting.net.access.book import AccessBook
from aerobee.remoting.net.access.policies import (
    Action,
    Decision,
    Need,
    Resource,
    ResourceKind,
    address,
    group,
    topic,
)

SHIPPED = """
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB
      - groupC=SUB

  - accessKey: rocketmq2
    secretKey: 0012345e6
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
"""
"""Laid out as the file of its distribution."""


def read(text: str) -> PlainAcl:
    """Read a text."""
    return read_plain_acl(text.encode(), "plain_acl.yml")


def account(*lines: str) -> str:
    """A file with one account of these lines."""
    return "accounts:\n- accessKey: annette\n  secretKey: a secret\n" + "".join(
        f"  {line}\n" for line in lines
    )


def book_of(text: str) -> AccessBook:
    """Return the users of a file."""
    book = AccessBook()
    for each in read(text).accounts:
        book.create_user(each.user)
        if each.acl.policies:
            book.put_acl(each.acl.subject, each.acl)
    return book


def may(book: AccessBook, resource: Resource, action: Action, name: str = "annette") -> bool:
    """Whether a user may do something."""
    if book.users[name].is_super:
        return True
    acl = book.acls.get(name)
    found = acl.decision(Need(resource, (action,)), address("10.1.1.1")) if acl else None
    return found is Decision.ALLOW


def test_the_file_of_the_distribution() -> None:
    """Each line of it means what it meant; numbers are texts, as they are written."""
    found = read(SHIPPED)
    assert (found.white, found.warnings, found.complete) == (
        ("10.10.103.0/24", "192.168.0.0/24"), (), True,
    )  # fmt: skip
    first, second = found.accounts
    assert (first.user.password, second.user.password) == ("12345678", "0012345e6")
    assert (first.user.user_type, second.user.user_type) == ("Normal", "Super")
    assert (first.white, second.white) == ((), ("192.168.1.0/24",))
    book, name = book_of(SHIPPED), "RocketMQ"
    pub, sub, get = Action.PUB, Action.SUB, Action.GET
    rights = {
        (resource, action): may(book, resource, action, name)
        for resource in (topic("topicA"), topic("topicB"), topic("topicC"), topic("other"),
                         group("groupA"), group("groupB"), group("groupC"), group("other"))
        for action in (pub, sub, get)
    }  # fmt: skip
    allowed = {pair for pair, allows in rights.items() if allows}
    assert allowed == {
        (topic("topicB"), pub), (topic("topicB"), sub), (topic("topicB"), get),
        (topic("topicC"), sub), (topic("topicC"), get),
        (group("groupB"), pub), (group("groupB"), sub), (group("groupB"), get),
        (group("groupC"), sub), (group("groupC"), get),
        (group("other"), sub), (group("other"), get),
    }  # fmt: skip
    assert not may(book, topic("topicB"), Action.UPDATE, name)


def test_an_admin_whom_his_file_restricts_is_no_super_user() -> None:
    """He may what admins of 4.x might, but for messages that were not his."""
    book = book_of(account("admin: true", "topicPerms: [secret=DENY, mine=PUB]"))
    assert not book.users["annette"].is_super
    cluster = Resource(ResourceKind.CLUSTER, "DefaultCluster")
    assert may(book, cluster, Action.UPDATE)
    for name in ("secret", "mine", "other"):
        for action in (Action.CREATE, Action.DELETE, Action.GET):
            assert may(book, topic(name), action)
        assert may(book, topic(name), Action.PUB) == (name == "mine")
        assert not may(book, topic(name), Action.SUB)
    assert may(book, group("g"), Action.UPDATE) and not may(book, group("g"), Action.SUB)


def test_a_word_that_nobody_knew_denies_as_it_did() -> None:
    """RocketMQ 5.5's own migration allows all then."""
    text = account("defaultTopicPerm: ANY", "topicPerms: [t=pub]")
    assert read(text).warnings == (
        "plain_acl.yml: 'annette': topicPerms 't=pub' means DENY, as in RocketMQ 4.x",
        "plain_acl.yml: 'annette': defaultTopicPerm 'ANY' means DENY, as in RocketMQ 4.x",
    )
    book = book_of(text)
    assert not may(book, topic("t"), Action.PUB) and not may(book, topic("u"), Action.PUB)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("accounts: {", "this is no YAML that can be read"),
        ("accounts:\n- accessKey: a\n\tsecretKey: b", "this is no YAML that can be read"),
        ("\0", "this is no YAML that can be read"),
        ("- a", "the file is no mapping of keys to values"),
        ("accounts: 5", "accounts is no list"),
        ("accounts: [5]", "account 1 is no mapping"),
        ("accounts:\n- accessKey: annette\n  sec", "while scanning a simple key"),
        ("accounts:\n- accessKey: annette", "account 1 ('annette'): password can not be blank"),
        ("accounts:\n- secretKey: x", "account 1 (''): username can not be blank"),
        (account("topicPerm: [t=PUB]"), "'topicPerm' is no key of RocketMQ 4.x"),
        (account("topicPerms: [t=PUB=SUB]"), "allowed is a name, = and a right"),
        (account("topicPerms: [t]"), "allowed is a name, = and a right"),
        (account("topicPerms: ['t*=PUB']"), "RocketMQ 4.x knew no patterns"),
        (account("topicPerms: [t=PUB, t=SUB]"), "topicPerms 't' is there twice"),
        (account("topicPerms: [[t]]"), "topicPerms is no text"),
        (account("admin: maybe"), "allowed are true and false"),
        (account("admin: true", "admin: false"), "admin is there twice"),
        (account("whiteRemoteAddress: here"), "'here' is no address"),
        (account() + "- accessKey: annette\n  secretKey: other", "'annette' is there twice"),
        ("a: &a [x]\naccounts: *a", "references (*a) are not read"),
        ("accounts: " + "[" * 40, "nested too deeply"),
        ("accounts: " + "[" * 100_000, "exceeded maximum nesting depth (line 1)"),
        ("accounts:\n- secretKey: a secret: b", "mapping values are not allowed"),
        ("accounts: !!python/object/apply:os.system [id]", "could not determine a constructor"),
        ("accounts: []\n---\naccounts: []", "expected a single document"),
    ],
)
def test_what_cannot_be_taken_over_is_told(text: str, told: str) -> None:
    """By the file and the account, without a secret; nothing is passed over."""
    with pytest.raises(PlainAclError) as error:
        read(text)
    assert told in str(error.value)
    assert str(error.value).startswith("plain_acl.yml: ")
    assert "a secret" not in str(error.value)


def test_an_empty_file_says_nothing() -> None:
    """RocketMQ 5.5 makes one where there is none."""
    for text in ("", "# nothing\n", "accounts:\n", "globalWhiteRemoteAddresses:\n"):
        assert read(text) == PlainAcl(complete=True)
    assert not read("accounts:\n- accessKey: a\n  secretKey: 1234").complete


@pytest.mark.parametrize(
    ("text", "networks"),
    [
        ("", []),
        ("*", ["0.0.0.0/0", "::/0"]),
        ("*.*.*.*", ["0.0.0.0/0", "::/0"]),
        ("10.1.2.3", ["10.1.2.3/32"]),
        ("10.1.2.3, 10.1.2.9", ["10.1.2.3/32", "10.1.2.9/32"]),
        ("10.1.2.{3,9}", ["10.1.2.3/32", "10.1.2.9/32"]),
        ("10.1.*.*", ["10.1.0.0/16"]),
        ("10.1.2.4-7", ["10.1.2.4/30"]),
        ("10.0-3.*.*", ["10.0.0.0/14"]),
        ("1:2:3:4:5:6:7:*", ["1:2:3:4:5:6:7:0/112"]),
        ("1:2:3:4:5:6:7:{8,a}", ["1:2:3:4:5:6:7:8/128", "1:2:3:4:5:6:7:a/128"]),
        ("fe80::1", ["fe80::1/128"]),
    ],
)
def test_addresses_of_4_x(text: str, networks: list[str]) -> None:
    """All of its forms."""
    assert networks_of(text) == networks


@pytest.mark.parametrize(
    "text", ["10.1.*", "10.1.*.5", "10.1.2.9-3", "10.1.2.-", "10.1.2.300", "10.1.2{3}", "a.b.*.*",
             "10.1.2.4-", "*.5", "::*", "10.1.2.{3", "{}", "1:2:3:4:5:6:7:fffff-1"],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    """Rather than to let others in than were meant."""
    with pytest.raises(ValueError, match="is no address as RocketMQ"):
        networks_of(text)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["accounts", "accessKey", "secretKey", "topicPerms",
                                       "admin", "whiteRemoteAddress"]), inner, max_size=4),
    max_leaves=12,
))  # fmt: skip
def test_whatever_stands_there_is_read_or_told(content: Any) -> None:
    """With one error that an operator can read."""
    import json

    for text in (json.dumps(content), json.dumps({"accounts": [content]})):
        try:
            assert isinstance(read(text), PlainAcl)
        except PlainAclError as error:
            assert "plain_acl.yml: " in str(error)
