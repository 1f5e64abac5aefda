"""Access control as a feature: whom a broker serves, and what each may do."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from weakref import WeakValueDictionary

from aerobee.broker.features.access.connection import AskingConnection
from aerobee.broker.features.access.excerpts import Excerpt, Rooms
from aerobee.broker.features.access.kept_book import KeptBook
from aerobee.broker.features.access.needs import needs_of
from aerobee.broker.features.access.pulls import UserPulls
from aerobee.broker.features.access.requests import BookRequests
from aerobee.broker.features.feature import Feature
from aerobee.broker.front.traffic import Traffic
from aerobee.broker.room import Sample, Work
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.start.context import Context
from aerobee.remoting.codes import RequestCode as Code
from aerobee.remoting.message.properties import Property, parse_properties
from aerobee.remoting.message.record import Record
from aerobee.remoting.net.access.guard import Guard, Refusal, name_of
from aerobee.remoting.net.access.policies import Action, Need, topic
from aerobee.remoting.net.access.refusing import OnRefused
from aerobee.remoting.net.admin_networks import is_trusted
from aerobee.remoting.net.budget import Budget
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.routes import Request
from aerobee.remoting.words import SYSTEM_PREFIX, SYSTEM_TOPICS

FAST: Final = frozenset(
    {Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE}
)
"""What passes where the like of it has; not where a whitelist tells them apart."""
SENDS: Final = frozenset({Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2})


class Access(Feature):
    """Users, policies, and the guard before every request where one of both is asked for."""

    def __init__(self, context: Context) -> None:
        settings = context.settings
        self._context = context
        self._kept = KeptBook(settings.config_dir, settings)
        self._rules = settings.access_rules
        self.guard = Guard(self._kept.book, self._rules, needs_of(settings.broker_cluster_name))
        one_of_them = FAST & (self._rules.open_codes | self._rules.free_codes)
        self._each_is_asked = settings.each_is_asked or bool(one_of_them)
        pulls = self._pulls = UserPulls(settings, context.pulls)
        self._rooms = Rooms(context.writing, context.front, pulls)
        self._excerpts: WeakValueDictionary[tuple[str, str, str], Excerpt] = WeakValueDictionary()
        self.stranger = self._excerpt("", "")
        self._kept.book.on_change.append(self._forget)
        context.changes.live.on_change(self._apply)
        self.files = self._kept.files
        self.answers = BookRequests(self._kept, self).routes
        if self._rules.authenticates or self._rules.authorizes:
            context.front.connect = self._connection
            context.records = self
            context.consumers.members.may_be_shown = self.may_be_shown

    async def start(self) -> None:
        """Have the users of the settings on the disk."""
        await self._kept.flush()
        if (audit := self._context.audit) is not None:
            audit.who = self.guard.who

    def background(self) -> Iterable[Work]:
        """Write what could not be written when it changed."""
        return (Work("users and policies", self._kept.save),)

    def close(self) -> OSError | None:
        """Write what is not written yet."""
        return self._kept.close()

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell who is refused, and how many there are."""
        return {
            "aerobee_access_refused_total": "Requests refused for want of a signature or a right",
            "aerobee_access_users": "Users that may sign requests",
        }

    def samples(self) -> Iterator[Sample]:
        """Yield how many."""
        yield Sample("aerobee_access_refused_total", self.guard.refused)
        yield Sample("aerobee_access_users", len(self._kept.book.users))

    @property
    def on_refused(self) -> OnRefused:
        """Who hears of requests that are refused."""
        audit = self._context.audit
        return audit.refused if audit is not None else None

    def excerpt(self, name: str, access_key: str, host: str) -> Excerpt:
        """Return what has passed of a user at an address; connections of both share it."""
        key = name, access_key, host
        found = self._excerpts.get(key)
        if found is None:
            found = self._excerpts[key] = self._excerpt(name, access_key)
        return found

    def check_seen(self, request: Request[Any], record: Record) -> None:
        """Return where whoever asks may look at its topic's messages; raises RequestError."""
        self._check_record(request, record, Action.GET)

    def check_consumed(self, request: Request[Any], record: Record) -> None:
        """Return where whoever asks may consume its topic's messages; raises RequestError."""
        self._check_record(request, record, Action.SUB)

    def check_published(self, request: Request[Any], record: Record) -> None:
        """Return where whoever asks may send to its topic; raises RequestError."""
        self._check_record(request, record, Action.PUB)

    def check_changed(self, request: Request[Any], record: Record) -> None:
        """Return where whoever asks may change its topic; raises RequestError."""
        self._check_record(request, record, Action.UPDATE)

    def may_be_shown(self, connection: Connection, topic_name: str) -> bool:
        """Whether a producer may send to a topic, so that he is asked about its half messages.

        He is who has proved on this connection that he is: where nobody has to, all are asked.
        """
        rules = self._rules
        if not (rules.authenticates and rules.authorizes):
            return True
        if Code.HEART_BEAT in rules.open_codes or rules.free_codes & SENDS:
            return True
        name, host = _user_of(connection), connection.remote_host[0]
        try:
            self.guard.allow(name, host, (Need(topic(topic_name), (Action.PUB,)),))
        except Refusal:
            return self.guard.passes(name, host, Code.SEND_MESSAGE_V2)
        return True

    def _check_record(self, request: Request[Any], record: Record, action: Action) -> None:
        """Ask by a record's own topic; what waits in one of the system's is of where it will go."""
        command = request.command
        if not self._rules.authorizes or command.code in self._rules.free_codes:
            return
        name = record.topic
        if name in SYSTEM_TOPICS or name.startswith(SYSTEM_PREFIX):
            name = parse_properties(record.properties).get(Property.REAL_TOPIC) or name
        user, host = name_of(request.connection, command), request.connection.remote_host[0]
        if not self.guard.passes(user, host, command.code):
            self.guard.allow(user, host, (Need(topic(name), (action,)),))

    def may_all(self, request: Request[Any]) -> bool:
        """Whether a request is from a super user, or where none is asked, from an operator."""
        if self._is_asked(request):
            return self.guard.is_super(name_of(request.connection, request.command))
        return self._is_operator(request)

    def may_change(self, request: Request[Any]) -> bool:
        """Whether a request may change users: it was asked who it is from, or an operator's."""
        return self._is_asked(request) or self._is_operator(request)

    def _is_asked(self, request: Request[Any]) -> bool:
        return self._rules.authenticates and request.command.code not in self._rules.open_codes

    def _is_operator(self, request: Request[Any]) -> bool:
        return is_trusted(request.connection, self._context.settings.admin_allowed_networks)

    def _excerpt(self, name: str, access_key: str) -> Excerpt:
        return Excerpt(name, access_key, self._rooms, each_is_asked=self._each_is_asked)

    def _connection(self, port: Traffic, budget: Budget) -> AskingConnection:
        return AskingConnection(self, port, budget)

    def _apply(self, settings: BrokerSettings) -> None:
        self._pulls.apply(settings)
        self._forget()

    def _forget(self) -> None:
        """Ask everything anew: users, policies or settings have changed."""
        for excerpt in list(self._excerpts.values()):
            excerpt.end()
        self._excerpts.clear()
        self.stranger = self._excerpt("", "")


def _user_of(connection: Connection) -> str:
    """Return who has proved last that a connection is his; "" where nobody has."""
    return connection.user.name if isinstance(connection, AskingConnection) else ""


make = Access
