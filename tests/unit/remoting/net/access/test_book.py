"""Users and policies as they are changed one by one, in RocketMQ's words."""

from typing import Any

import pytest

from aerobee.remoting.bodies import (
    AclInfo,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.net.access import book as books
from aerobee.remoting.net.access.book import AccessBook, AclsFile, UsersFile


def ann(**fields: str) -> UserInfo:
    """What is said of a user."""
    return UserInfo(**({"username": "ann", "password": "secret"} | fields))


def policy(resource: str = "Topic:t", **fields: Any) -> AclInfo:
    """An ACL of one entry."""
    entry: dict[str, Any] = {"resource": resource, "actions": ["Pub"], "decision": "Allow"}
    return AclInfo(policies=[PolicyInfo(entries=[PolicyEntryInfo(**(entry | fields))])])


def make() -> AccessBook:
    """A book with one user."""
    book = AccessBook()
    book.create_user(ann())
    return book


@pytest.mark.parametrize(
    ("info", "remark"),
    [
        (ann(username=" "), "username can not be blank"),
        (ann(password=""), "password can not be blank"),
        (ann(), "The user is existed"),
        (ann(username="b", user_type="Root"), "UserType 'Root': there are Super and Normal"),
        (ann(username="b", user_status="on"), "UserStatus 'on': there are enable and disable"),
        (ann(username="b\n"), "a username has up to 255 characters that can be printed"),
        (ann(username="b" * 256), "a username has up to 255 characters that can be printed"),
        (ann(username="b", password="p" * 1025), "a password has up to 1024 characters"),
    ],
)
def test_a_user_that_cannot_be_is_refused(info: UserInfo, remark: str) -> None:
    """And nothing has changed."""
    book = make()
    with pytest.raises(RequestError) as refused:
        book.create_user(info)
    assert (refused.value.code, refused.value.remark) == (ResponseCode.NO_PERMISSION, remark)
    assert [*book.users] == ["ann"]


def test_what_a_change_leaves_blank_stays() -> None:
    """Also where a client writes nothing for what it does not say."""
    book = make()
    assert book.update_user(UserInfo(username="ann", user_status="DISABLE")).password == "secret"
    user = book.update_user(ann(password="other", user_type="super"))
    assert user.is_super
    assert user.info(secret=True) == UserInfo(
        username="ann", password="other", user_type="Super", user_status="disable"
    )
    assert user.info(secret=False).password is None
    assert "other" not in repr(user)
    with pytest.raises(RequestError, match="The user is not exist"):
        book.update_user(ann(username="bob"))


@pytest.mark.parametrize(
    ("info", "remark"),
    [
        (AclInfo(), "The policies is empty."),
        (AclInfo(policies=[PolicyInfo()]), "The policy entries is empty."),
        (policy("Thing:t"), "The resource is null. "),
        (policy("Topic:" + "t" * 600), "The resource is null. "),
        (policy(actions=[]), "The actions is empty."),
        (policy(actions=["Any"]), "The actions can not be Any."),
        (policy(actions=["Pub", "Write"]), "Write: no such action; there are All, Pub, Sub"),
        (policy(source_ips=[" "]), "The source ip is empty."),
        (policy(source_ips=["10.1.2.3/40"]), "The source ip is invalid."),
        (policy(source_ips=["::1"] * 1001), "an entry has up to 1000 source ips"),
        (policy(decision=""), "The decision is null or illegal."),
    ],
)
def test_a_policy_that_says_nothing_clear_is_refused(info: AclInfo, remark: str) -> None:
    """And none of it holds."""
    book = make()
    with pytest.raises(RequestError) as refused:
        book.put_acl("User:ann", info)
    assert refused.value.remark.startswith(remark)
    assert not book.acls


def test_whose_policies_they_are_must_be_clear() -> None:
    """There are users alone, and those who are there."""
    book = make()
    with pytest.raises(RequestError, match="The subject of User:bob is not exist"):
        book.put_acl("User:bob", policy())
    with pytest.raises(RequestError, match="The subject type is null"):
        book.put_acl("Role:ann", policy())
    for ask in (book.acl, lambda subject: book.delete_acl(subject, None, None)):
        with pytest.raises(RequestError, match="The subject is not exist"):
            ask("User:bob")
    with pytest.raises(RequestError, match="The acl is not exist"):
        book.delete_acl("User:ann", None, None)
    assert book.acl("user:ann") is None


def test_policies_go_one_by_one_or_with_their_user() -> None:
    """A user of the same name begins with none."""
    book = make()
    book.put_acl("User:ann", policy())
    book.put_acl("User:ann", policy("Group:g", source_ips=["10.0.0.0/8"]))
    book.delete_acl("User:ann", "Custom", "Topic:t")
    book.delete_acl("User:ann", None, "Topic:none")
    info = book.acl("User:ann")
    assert info is not None
    (left,) = info.policies[0].entries
    assert (left.resource, left.source_ips) == ("Group:g", ["10.0.0.0/8"])
    book.delete_acl("User:ann", None, "Group:g")
    assert book.acl("User:ann") is None
    book.put_acl("User:ann", policy())
    book.delete_user("ann")
    book.create_user(ann())
    assert book.acl("User:ann") is None
    book.delete_user("nobody")


def test_lists_are_narrowed_by_parts_of_names() -> None:
    """Of users, subjects and resources; what has nothing left is not listed."""
    book = make()
    book.create_user(ann(username="bob"))
    for name, resource in (("ann", "Topic:a"), ("ann", "Group:g"), ("bob", "Topic:b")):
        book.put_acl(f"User:{name}", policy(resource))
    assert [user.name for user in book.list_users("n")] == ["ann"]
    assert len(book.list_users("")) == 2
    assert [info.subject for info in book.list_acls("bo", "")] == ["User:bob"]
    (info,) = book.list_acls("", "Group")
    assert [entry.resource for entry in info.policies[0].entries] == ["Group:g"]


def test_files_hold_all_that_there_is() -> None:
    """What is written is read again; what could not have been made is not."""
    book = make()
    book.create_user(ann(username="b", user_type="Super", user_status="disable"))
    book.put_acl("User:ann", policy(source_ips=["::1"]))
    again = AccessBook()
    again.take_users(decode_body(UsersFile, encode_body(book.users_file())))
    again.take_acls(decode_body(AclsFile, encode_body(book.acls_file())))
    assert (again.users, again.acls) == (book.users, book.acls)
    with pytest.raises(RequestError):
        book.take_users(UsersFile(users=[UserInfo(username="c")]))
    with pytest.raises(RequestError):
        book.take_acls(AclsFile(acls=[policy()]))


def test_listeners_hear_when_it_has_changed() -> None:
    """Who keeps a table hears of that table alone, who goes by it of every change."""
    book, heard = make(), list[str]()
    book.on_users.append(lambda: heard.append("users"))
    book.on_acls.append(lambda: heard.append("acls"))
    book.on_change.append(lambda: heard.append("change"))
    book.put_acl("User:ann", policy())
    book.update_user(ann(password="x"))
    book.delete_user("ann")
    assert heard == ["acls", "change", "users", "change", "acls", "users", "change"]


def test_there_is_room_for_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of users, and of entries of one."""
    book = make()
    monkeypatch.setattr(books, "USERS_MAX", 1)
    with pytest.raises(RequestError, match="there are 1 users already"):
        book.create_user(ann(username="bob"))
    monkeypatch.setattr(books, "ENTRIES_MAX", 1)
    book.put_acl("User:ann", policy())
    book.put_acl("User:ann", policy())
    with pytest.raises(RequestError, match="more than 1 entries"):
        book.put_acl("User:ann", policy("Topic:u"))


def test_a_new_user_has_no_policies_of_one_who_is_lost() -> None:
    """As where `users.json` was lost, and `acls.json` was not."""
    entry = PolicyEntryInfo(resource="*", actions=["All"], decision="Allow")
    acl = AclInfo(subject="User:ann", policies=[PolicyInfo(entries=[entry])])
    book, told = AccessBook(), list[str]()
    book.take_acls(AclsFile(acls=[acl]))
    book.on_acls.append(lambda: told.append("acls"))
    book.create_user(UserInfo(username="ann", password="x"))
    assert book.acl("User:ann") is None
    assert told == ["acls"]
