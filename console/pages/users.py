"""Users and policies of the cluster's access control, which every broker keeps for itself."""

from collections.abc import Mapping
from typing import Final

import msgspec
from aiohttp import web

from aerobee.admin.access import (
    CUSTOM,
    ENABLED,
    NORMAL,
    SUPER,
    USER_PREFIX,
    new_entry,
)
from aerobee.client.errors import BrokerRefused, InvalidUse
from aerobee.console.listing import ListPage
from aerobee.console.page import ConsolePage, PageRoute, Visit
from aerobee.console.roles import ConsoleRole
from aerobee.remoting.bodies import PolicyEntryInfo, UserInfo
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.net.access.policies import Action, Decision

SECRET_CHARS_MIN: Final = 8
USER_TYPES: Final = (NORMAL, SUPER)
ACTIONS: Final = tuple(each.value for each in Action)
DECISIONS: Final = tuple(each.value for each in Decision)


class UserRow(msgspec.Struct):
    """A user as the brokers have him; `differs` says that not all have him alike."""

    name: str
    types: set[str]
    states: set[str]
    brokers: list[str]
    differs: bool = False


class EntryRow(msgspec.Struct):
    """An entry of a user's policies, and the brokers that have it so."""

    policy_type: str
    entry: PolicyEntryInfo
    brokers: list[str]


async def show(visit: Visit) -> web.StreamResponse:
    """List the users."""
    wanted = visit.query("q")
    try:
        access = visit.admin.access
        answers = await access.users(await access.servers(), like=wanted)
    except BrokerRefused as error:
        if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        return visit.page("users/none.html")
    by_name: dict[str, UserRow] = {}
    for broker, users in answers.found.items():
        for user in users.values():
            row = by_name.setdefault(user.username, UserRow(user.username, set(), set(), []))
            row.types.add(user.user_type or NORMAL)
            row.states.add(user.user_status or ENABLED)
            row.brokers.append(broker)
    for row in by_name.values():
        everywhere = len(row.brokers) == len(answers.found)
        row.differs = not (everywhere and len(row.types) == len(row.states) == 1)
    rows = [by_name[name] for name in sorted(by_name)]
    page = ListPage(rows, visit.number("page", 1, 1, 1 << 31), "/users", {"q": wanted})
    return visit.page(
        "users/all.html", list=page, wanted=wanted, failed=answers.failed, user_types=USER_TYPES
    )


async def describe(visit: Visit) -> web.StreamResponse:
    """Show one user with his policies."""
    name = visit.path("user")
    access = visit.admin.access
    servers = await access.servers()
    users = await access.users(servers, like=name)
    known = {
        broker: msgspec.structs.replace(found[name], password=None)  # brokers tell some, pages none
        for broker, found in users.found.items()
        if name in found
    }
    if not known:
        raise InvalidUse(f"No broker has a user {name!r}.")
    subject = USER_PREFIX + name
    answers = await access.acls(servers, subject=subject)
    entries: dict[bytes, EntryRow] = {}
    for broker, acls in answers.found.items():
        for acl in acls:
            if acl.subject != subject:
                continue
            for policy in acl.policies:
                for entry in policy.entries:
                    kind = policy.policy_type or CUSTOM
                    key = msgspec.json.encode((kind, entry))
                    entries.setdefault(key, EntryRow(kind, entry, [])).brokers.append(broker)
    rows = sorted(entries.values(), key=lambda row: (row.policy_type, row.entry.resource))
    return visit.page(
        "users/one.html",
        name=name,
        known=known,
        is_enabled=_is_enabled(known),
        entries=rows,
        asked=len(answers.found),
        failed=users.failed | answers.failed,
        actions=ACTIONS,
        decisions=DECISIONS,
        user_types=USER_TYPES,
    )


async def create(visit: Visit) -> web.StreamResponse:
    """Make a user."""
    form = await visit.form()
    name = form.get("name", "").strip()
    kind = _one_of(form.get("user_type", NORMAL), USER_TYPES)
    user = UserInfo(username=name, password=_secret(form), user_type=kind)
    await visit.admin.access.create_user(user, await visit.admin.access.servers())
    visit.changed(f"user {name} made, {kind}")
    return visit.go(f"/users/{visit.quoted(name)}")


async def alter(visit: Visit) -> web.StreamResponse:
    """Give a user another secret, or type, or let him in or not."""
    name, form = visit.path("user"), await visit.form()
    user = UserInfo(username=name)
    match form.get("change", ""):
        case "secret":
            user = UserInfo(username=name, password=_secret(form))
            what = "has another secret"
        case "type":
            kind = _one_of(form.get("user_type", ""), USER_TYPES)
            user = UserInfo(username=name, user_type=kind)
            what = f"is {kind}"
        case "enable" | "disable" as state:
            user = UserInfo(username=name, user_status=state)
            what = f"is {state}d"
        case _:
            raise InvalidUse("Nothing was changed.")
    await visit.admin.access.alter_user(user, await visit.admin.access.servers())
    visit.changed(f"user {name} {what}")
    return visit.go(f"/users/{visit.quoted(name)}")


async def delete(visit: Visit) -> web.StreamResponse:
    """Delete a user with his policies, once his name was typed again."""
    name, form = visit.path("user"), await visit.form()
    if form.get("confirm", "").strip() != name:
        raise InvalidUse(f"Nothing was deleted: type {name} to say that you mean it.")
    await visit.admin.access.delete_user(name, await visit.admin.access.servers())
    visit.changed(f"user {name} deleted")
    return visit.go("/users")


async def decide(visit: Visit) -> web.StreamResponse:
    """Say what a user may do to a resource."""
    name, form = visit.path("user"), await visit.fields()
    resource = form.get("resource", "").strip()
    actions = [_one_of(action, ACTIONS) for action in form.getall("actions", [])]
    decision = _one_of(form.get("decision", Decision.ALLOW.value), DECISIONS)
    sources = [text.strip() for text in form.get("sources", "").split(",") if text.strip()]
    if not resource or not actions:
        raise InvalidUse("Name a resource, such as Topic:orders or Group:bill*, and actions.")
    is_denied = decision == Decision.DENY.value
    entry = new_entry(resource, actions, sources, deny=is_denied)
    await visit.admin.access.put_entries(name, [entry], await visit.admin.access.servers())
    word = "may not" if is_denied else "may"
    visit.changed(f"user {name} {word} {', '.join(actions)} on {resource}")
    return visit.go(f"/users/{visit.quoted(name)}")


async def forget(visit: Visit) -> web.StreamResponse:
    """Delete one entry of a user's policies."""
    name, form = visit.path("user"), await visit.form()
    resource, kind = form.get("resource", ""), form.get("policy_type", "")
    if not resource or not kind:
        raise InvalidUse("Nothing was deleted: name an entry.")
    servers = await visit.admin.access.servers()
    await visit.admin.access.delete_entries(name, [resource], servers, policy_type=kind)
    visit.changed(f"entry {resource} of user {name} deleted")
    return visit.go(f"/users/{visit.quoted(name)}")


def _is_enabled(known: Mapping[str, UserInfo]) -> bool:
    return any((user.user_status or ENABLED).lower() == ENABLED for user in known.values())


def _secret(form: Mapping[str, str]) -> str:
    secret = form.get("secret", "")
    if len(secret) < SECRET_CHARS_MIN:
        raise InvalidUse(f"A secret needs {SECRET_CHARS_MIN} characters or more.")
    return secret


def _one_of(text: str, words: tuple[str, ...]) -> str:
    if text not in words:
        raise InvalidUse(f"{text!r} is none of {', '.join(words)}")
    return text


PAGE: Final = ConsolePage(
    "Users",
    "/users",
    (
        PageRoute("GET", "/users", show, costly=True),
        PageRoute("POST", "/users", create),
        PageRoute("GET", "/users/{user}", describe, costly=True),
        PageRoute("POST", "/users/{user}", alter),
        PageRoute("POST", "/users/{user}/delete", delete),
        PageRoute("POST", "/users/{user}/policies", decide),
        PageRoute("POST", "/users/{user}/policies/delete", forget),
    ),
    ConsoleRole.ADMIN,
)
