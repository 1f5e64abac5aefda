"""Whom a nameserver serves, and what each may do; RocketMQ's serves everybody.

Users are those of its settings and of `users.json` and `acls.json` beside its KV table, in the form
in which brokers keep theirs: an operator copies them. They are read at the start and not written.
"""

import logging
from collections.abc import Iterable
from typing import Final

import msgspec

from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.bodies import decode_body
from aerobee.remoting.codes import RequestCode as Code
from aerobee.remoting.command import Command
from aerobee.remoting.config.kept_files import load_kept_file
from aerobee.remoting.config.secret_keys import open_to_others
from aerobee.remoting.net.access.book import AccessBook, AclsFile, UsersFile
from aerobee.remoting.net.access.guard import Guard
from aerobee.remoting.net.access.kept_texts import check_keys
from aerobee.remoting.net.access.policies import Action, Need, Resource, ResourceKind

log = logging.getLogger(__name__)

ROUTES: Final = frozenset({Code.GET_ROUTEINFO_BY_TOPIC, Code.GET_BROKER_CLUSTER_INFO})
"""What every client asks, whoever it is, unless `routesAuthenticationEnabled` says otherwise."""
READS: Final = frozenset(
    {
        *ROUTES,
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        Code.GET_BROKER_MEMBER_GROUP,
        Code.GET_HAS_UNIT_SUB_TOPIC_LIST,
        Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        Code.GET_KVLIST_BY_NAMESPACE,
        Code.GET_KV_CONFIG,
        Code.GET_NAMESRV_CONFIG,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        Code.GET_TOPICS_BY_CLUSTER,
        Code.GET_UNIT_TOPIC_LIST,
    }
)
"""What tells without changing anything; all others change, or are a broker's."""
EVERY_CLUSTER: Final = Resource(ResourceKind.CLUSTER, "*")
"""What `Cluster:*` speaks of and nothing narrower: who registers may take any broker's place."""


def guard_of(settings: NamesrvSettings) -> Guard:
    """Return who asks before a request is served; raises KeptFileDamaged."""
    book = AccessBook()
    folder = settings.kv_config_path.parent
    for name, take in (
        (
            "users.json",
            lambda data: book.take_users(decode_body(UsersFile, check_keys(UsersFile, data))),
        ),
        (
            "acls.json",
            lambda data: book.take_acls(decode_body(AclsFile, check_keys(AclsFile, data))),
        ),
    ):
        load_kept_file(folder / name, take)
        if told := open_to_others(folder / name):
            log.warning("secrets_are_readable file=%s: %s", folder / name, told)
    for info in settings.first_users:
        if info.username not in book.users:
            book.create_user(info)
    rules = settings.access_rules
    if not settings.routes_authentication_enabled:
        rules = msgspec.structs.replace(
            rules, open_codes=rules.open_codes | ROUTES, free_codes=rules.free_codes | ROUTES
        )
    return Guard(book, rules, needs)


def needs(command: Command) -> Iterable[Need]:
    """Say what a request must be allowed: to read, or to change, what the nameserver knows."""
    return (Need(EVERY_CLUSTER, (Action.GET if command.code in READS else Action.UPDATE,)),)
