"""Why a client gets no route or no messages: what can be seen from here, and what to do."""

import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from aerobee.admin.brokers import PERMISSION, BrokerAdmin
from aerobee.admin.calls import AdminCalls, side_by_side
from aerobee.admin.groups import ConnectedMember, GroupAdmin
from aerobee.client.cluster.directory import BrokerEntry
from aerobee.client.cluster.routes import MASTER_ID
from aerobee.client.errors import BrokerRefused
from aerobee.remoting.bodies import (
    ClusterInfo,
    SubscriptionData,
    TopicRouteData,
    decode_body,
)
from aerobee.remoting.codes import Perm, RequestCode, ResponseCode
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.headers.route import RouteInfoRequest
from aerobee.remoting.net.addresses import BadAddress, parse_address
from aerobee.remoting.words import RETRY_PREFIX

CLOCK_OFF_S: Final = 5.0
"""From here on clocks differ: brokers tell the time to the second, and answers take a while."""
DISK_WARN: Final = 0.75
DISK_FULL: Final = 0.9
"""How much of the disk may be used: RocketMQ deletes early from 0.75, and refuses from 0.9 on."""
LOOPBACK: Final = ("127.", "localhost", "::1")
_RUNTIME: Final = re.compile(r"(\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds")

T = TypeVar("T")


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at: `state` is "ok", "warning" or "error".

    `what` says it, of `where`; `do` is what to do, "" where all is well.
    """

    state: str
    where: str
    what: str
    do: str = ""


class Doctor:
    """Looks at nameservers, brokers, a topic and a group as a client on this machine meets them.

    for finding in await admin.doctor.examine(topic="orders", group="billing"):
        print(finding.state, finding.where, finding.what, finding.do)
    """

    def __init__(self, admin: AdminCalls, brokers: BrokerAdmin, groups: GroupAdmin) -> None:
        self._admin = admin
        self._brokers = brokers
        self._groups = groups

    async def examine(self, *, topic: str | None = None, group: str | None = None) -> list[Finding]:
        """Look at everything and return what was found; what does not answer is a finding, too."""
        found, views = await self._nameservers()
        if not views:
            return found
        entries = _entries(next(iter(views.values())))
        if not entries:
            found.append(
                Finding(
                    "error",
                    ";".join(self._admin.namesrv),
                    "no broker has registered",
                    "start one with this namesrvAddr; one that runs says in its log where it"
                    " registers",
                )
            )
            return found
        remote = not any(_is_loopback(address) for address in views)
        masters = [entry for entry in entries if entry.broker_id == MASTER_ID]
        looks = await side_by_side(entries, lambda entry: self._broker(entry, remote))
        found += [each for some in looks.values() for each in some]
        found += _without_master(entries)
        if topic is not None:
            found += await self._topic(topic, list(views))
        if group is not None:
            found += await self._group(group, masters)
        return found

    # --- nameservers ---

    async def _nameservers(self) -> tuple[list[Finding], dict[str, ClusterInfo]]:
        """Ask each; return what was found, and the view of each that answers."""
        code = RequestCode.GET_BROKER_CLUSTER_INFO

        async def ask(address: str) -> ClusterInfo:
            reply = await self._admin.connections.request(address, code)
            return decode_body(ClusterInfo, reply.body)

        found: list[Finding] = []
        views: dict[str, ClusterInfo] = {}
        for address, answer in (await _tried(self._admin.namesrv, ask)).items():
            if isinstance(answer, AerobeeError):
                do = "start it there, or correct the address (-n, NAMESRV_ADDR); is a port closed?"
                found.append(Finding("error", address, f"no nameserver answers: {answer}", do))
            else:
                views[address] = answer
                count = len(_entries(answer))
                found.append(Finding("ok", address, f"the nameserver knows {count} brokers"))
        if len(views) > 1:
            known = {each for view in views.values() for each in _entries(view)}
            for address, view in views.items():
                lacking = sorted({each.name for each in known - set(_entries(view))})
                if lacking:
                    what = f"does not know {', '.join(lacking)}, which others do"
                    do = "name all nameservers in each broker's namesrvAddr"
                    found.append(Finding("error", address, what, do))
        return found, views

    # --- brokers ---

    async def _broker(self, entry: BrokerEntry, remote: bool) -> list[Finding]:
        """Look at one broker at the address that clients are told."""
        where = f"{entry.name} ({entry.address})"
        if remote and _is_loopback(entry.address):
            return [
                Finding(
                    "error",
                    where,
                    "tells clients an address that leads nowhere but to themselves",
                    "set brokerIP1 to an address that clients reach, and start it again",
                )
            ]
        asked_s = time.time()
        try:
            state = await self._brokers.state(entry.address)
        except AerobeeError as error:
            return [
                Finding(
                    "error",
                    where,
                    f"is not reached at the address that it tells clients: {error}",
                    "if it runs: set brokerIP1 (and listenPort) to what clients reach; firewalls"
                    " and container ports are the usual reasons",
                )
            ]
        found = [
            *_clock(where, state, asked_s, time.time()),
            *_disks(where, state),
            *await self._permission(entry, where),
        ]
        version = state.get("brokerVersionDesc", "?")
        return found or [Finding("ok", where, f"answers, {version}, disk and clock are sound")]

    async def _permission(self, entry: BrokerEntry, where: str) -> list[Finding]:
        try:
            settings = await self._brokers.settings_at(entry.address)
        except AerobeeError as error:
            return [Finding("warning", where, f"tells no settings: {error}", "")]
        text = settings.get(PERMISSION, "6")
        perm = int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else 6
        lacking = [
            word for bit, word in ((Perm.READ, "read"), (Perm.WRITE, "write")) if not perm & bit
        ]
        if not lacking:
            return []
        what = f"does not let clients {' or '.join(lacking)} ({PERMISSION}={text})"
        do = f"`aerobee broker set {entry.name} {PERMISSION}=6`, unless it is being drained"
        return [Finding("warning", where, what, do)]

    # --- a topic ---

    async def _topic(self, topic: str, namesrv: list[str]) -> list[Finding]:
        """Look for a topic's route at each nameserver."""

        async def ask(address: str) -> TopicRouteData | None:
            header = RouteInfoRequest(topic=topic, accept_standard_json_only=True)
            try:
                reply = await self._admin.connections.request(
                    address, RequestCode.GET_ROUTEINFO_BY_TOPIC, header
                )
            except BrokerRefused as error:
                if error.code == ResponseCode.TOPIC_NOT_EXIST:
                    return None
                raise
            return decode_body(TopicRouteData, reply.body)

        found: list[Finding] = []
        for address, route in (await _tried(namesrv, ask)).items():
            where = f"topic {topic} at {address}"
            if isinstance(route, AerobeeError):
                found.append(Finding("error", where, f"no answer: {route}", ""))
            elif route is None:
                what = "no route: no registered broker has the topic"
                do = (
                    f"`aerobee topic create {topic}`; brokers make it by themselves at the first"
                    " send where autoCreateTopicEnable is true"
                )
                found.append(Finding("error", where, what, do))
            else:
                found += _route(topic, where, route)
        return found

    # --- a group ---

    async def _group(self, group: str, masters: list[BrokerEntry]) -> list[Finding]:
        """Look whether a group has members, and whether they all want the same."""
        where = f"group {group}"
        try:
            described = await self._groups.describe(group)
        except AerobeeError as error:
            do = "consumers make it when they start, where autoCreateSubscriptionGroup is true"
            return [Finding("error", where, str(error), do)]
        found = [
            Finding(
                "error",
                f"{where} on {name}",
                "may not consume (consumeEnable is false)",
                f"`aerobee group alter {group} --enabled`",
            )
            for name, config in described.configs.items()
            if not config.consume_enable
        ]
        if not described.members:
            what = f"has no connected members and {described.lag:,} messages to consume"
            do = "start its consumers; `aerobee doctor` on their machine says what they reach"
            return [*found, Finding("warning", where, what, do)]
        found += await self._wishes(group, described.members, masters)
        return found or [
            Finding("ok", where, f"{len(described.members)} members, all subscribe to the same")
        ]

    async def _wishes(
        self, group: str, members: list[ConnectedMember], masters: list[BrokerEntry]
    ) -> list[Finding]:
        """Compare what the members of a group subscribe to."""

        async def ask(member: ConnectedMember) -> frozenset[str]:
            info = await self._groups.running(group, member, masters)
            return _wish(info.subscription_set if info is not None else [])

        by_id = {member.client_id: member for member in members}
        wishes: dict[frozenset[str], list[str]] = {}
        answers = await side_by_side(by_id, lambda client_id: ask(by_id[client_id]))
        for client_id, wish in answers.items():
            if wish:
                wishes.setdefault(wish, []).append(client_id)
        if len(wishes) < 2:
            return []
        told = "; ".join(
            f"{', '.join(sorted(wish))} ({', '.join(ids[:3])})" for wish, ids in wishes.items()
        )
        return [
            Finding(
                "error",
                f"group {group}",
                f"members subscribe to different things: {told}",
                "give the members that want something else a group of their own: messages of queues"
                " that a member does not want are lost to the others",
            )
        ]


async def _tried(
    addresses: Iterable[str], ask: Callable[[str], Awaitable[T]]
) -> dict[str, T | AerobeeError]:
    """Ask each, and return its answer or what it failed with."""

    async def one(address: str) -> T | AerobeeError:
        try:
            return await ask(address)
        except AerobeeError as error:
            return error

    return await side_by_side(addresses, one)


def _entries(view: ClusterInfo) -> list[BrokerEntry]:
    return sorted(
        BrokerEntry(data.cluster, name, broker_id, address)
        for name, data in view.broker_addr_table.items()
        for broker_id, address in data.broker_addrs.items()
    )


def _is_loopback(address: str) -> bool:
    try:
        host, _ = parse_address(address)
    except BadAddress:
        return False
    return host.startswith(LOOPBACK)


def _without_master(entries: list[BrokerEntry]) -> list[Finding]:
    with_master = {entry.name for entry in entries if entry.broker_id == MASTER_ID}
    return [
        Finding(
            "error",
            name,
            "has no master: nobody can send to its queues",
            "start its master (brokerId=0)",
        )
        for name in sorted({entry.name for entry in entries} - with_master)
    ]


def _clock(
    where: str, state: Mapping[str, str], asked_s: float, answered_s: float
) -> list[Finding]:
    """Compare a broker's time, which is that of its start plus how long it runs, with ours."""
    found = _RUNTIME.search(state.get("runtime", ""))
    boot = state.get("bootTimestamp", "")
    if found is None or not (boot.isascii() and boot.isdecimal()):
        return []
    days, hours, minutes, seconds = map(int, found.groups())
    runs_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    theirs_s = int(boot) / 1000 + runs_s
    off_s = max(asked_s - (theirs_s + 1), theirs_s - answered_s, 0.0)
    if off_s < CLOCK_OFF_S:
        return []
    way = "behind" if theirs_s < asked_s else "before"
    what = f"its clock is {off_s:.0f} s {way} this machine's"
    do = "let a time service (chrony) set both clocks: delays, retention and searches follow them"
    return [Finding("warning", where, what, do)]


def _disks(where: str, state: Mapping[str, str]) -> list[Finding]:
    found = []
    for key, what in (("commitLogDiskRatio", "log"), ("consumeQueueDiskRatio", "queues")):
        try:
            used = float(state.get(key, "0"))
        except ValueError:
            continue
        if used >= DISK_WARN:
            state_word = "error" if used >= DISK_FULL else "warning"
            text = f"the disk of its {what} is {used:.0%} full"
            do = "make room, or shorten fileReservedTime; from 90 % on sends are refused"
            found.append(Finding(state_word, where, text, do))
    return found


def _route(topic: str, where: str, route: TopicRouteData) -> list[Finding]:
    """Say what clients can do with a route."""
    found: list[Finding] = []
    for queues in route.queue_datas:
        lacking = [
            word
            for bit, word in ((Perm.READ, "read"), (Perm.WRITE, "write"))
            if not queues.perm & bit
        ]
        if lacking:
            what = f"clients may not {' or '.join(lacking)} on {queues.broker_name}"
            do = (
                f"`aerobee topic alter {topic} --perm rw`; where the broker's write permission was"
                f" wiped, `aerobee broker allow-writes {queues.broker_name}`"
            )
            found.append(Finding("warning", where, what, do))
    count = sum(queues.write_queue_nums for queues in route.queue_datas)
    names = ", ".join(sorted(queues.broker_name for queues in route.queue_datas))
    return found or [Finding("ok", where, f"{count} queues on {names}")]


def _wish(subscriptions: Iterable[SubscriptionData]) -> frozenset[str]:
    return frozenset(
        f"{each.topic}: {each.sub_string or '*'}"
        for each in subscriptions
        if not each.topic.startswith(RETRY_PREFIX)
    )
