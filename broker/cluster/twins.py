"""Another broker of the same name and id: seen before a start, and while both serve.

A nameserver keeps one address for a name and an id, whoever registered last. Two brokers of one
name take turns there, and clients see the one store or the other. RocketMQ says nothing of it.
"""

import asyncio
import logging
from typing import Final

from aerobee.broker.cluster.registration import Caller
from aerobee.broker.settings.live import Live
from aerobee.remoting.bodies import BrokerMemberGroupReply, decode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.config.java_properties import parse_java_properties
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.headers.namesrv import BrokerMemberGroupRequest
from aerobee.remoting.headers.typed import encode_header

log = logging.getLogger(__name__)

LOOK_INTERVAL_MS: Final = 20_000  # not the period of registrations, or looks would see one's own
QUIET_LOOKS: Final = 5  # so many without the other until it counts as gone: both register in turn


class NameInUse(AerobeeError):
    """Another broker serves under this name, and `refuseNameInUse` says not to start beside it."""


class Twins:
    """Looks whether the nameservers have another broker in this one's place.

    `at` is the address of the one that was seen last and still counts, "" while there is none.
    """

    def __init__(self, live: Live, caller: Caller, address: str) -> None:
        self._live = live
        self._caller = caller
        self._address = address
        self._quiet = 0
        self.at = ""

    async def before_start(self) -> None:
        """Look once, before the nameservers are told of this broker.

        Raises NameInUse where another one serves and the settings say not to start then.
        """
        await self.look()
        if self.at and self._live.current.refuse_name_in_use:
            raise NameInUse(
                f"brokerName {self._live.current.broker_name!r} is in use by the broker at"
                f" {self.at}: choose another brokerName, or stop that one (refuseNameInUse)"
            )

    async def look(self) -> None:
        """Ask each nameserver who has the name, and whoever that is whether it is there."""
        servers = self._live.current.nameservers
        found = await asyncio.gather(*(self._holder(server) for server in servers))
        others = {address for address in found if address and address != self._address}
        serving = [address for address in sorted(others) if await self._answers(address)]
        if serving:
            self._quiet = 0
            self._tell(serving[0])
        elif self.at:
            self._quiet += 1
            if self._quiet >= QUIET_LOOKS:
                log.info("broker_twin_gone was_at=%s", self.at)
                self.at = ""

    def _tell(self, address: str) -> None:
        if address == self.at:
            return
        self.at = address
        settings = self._live.current
        log.error(
            "broker_twin name=%s id=%d this=%s other=%s: another broker serves under this name;"
            " clients find whichever registered last, with the messages of that one alone; give"
            " one of them another brokerName",
            settings.broker_name,
            settings.broker_id,
            self._address,
            address,
        )

    async def _holder(self, server: str) -> str:
        """Return the address that a nameserver has for this name and id, "" where it has none."""
        settings = self._live.current
        header = BrokerMemberGroupRequest(
            cluster_name=settings.broker_cluster_name, broker_name=settings.broker_name
        )
        reply = await self._ask(
            server, Command(RequestCode.GET_BROKER_MEMBER_GROUP, encode_header(header))
        )
        if reply is None or reply.code != ResponseCode.SUCCESS or not reply.body:
            return ""
        try:
            group = decode_body(BrokerMemberGroupReply, reply.body).broker_member_group
        except AerobeeError:
            return ""  # of another version: it is asked nothing that is needed
        return group.broker_addrs.get(settings.broker_id, "")

    async def _answers(self, address: str) -> bool:
        """Whether another broker of this name is there.

        One that crashed is known to nameservers for two minutes, and who answers at its address may
        be a broker of another name, or this one, which now calls itself otherwise.
        """
        reply = await self._ask(address, Command(RequestCode.GET_BROKER_CONFIG))
        if reply is None:
            return False
        try:
            found = parse_java_properties(bytes(reply.body).decode())
        except ValueError:
            return True
        name, its_own = self._live.current.broker_name, found.get("brokerIP1", "")
        if f"{its_own}:{found.get('listenPort')}" == self._address:
            return False
        return found.get("brokerName", name) == name

    async def _ask(self, address: str, command: Command) -> Command | None:
        timeout_s = self._live.current.announce_timeout_ms / 1000
        try:
            return await self._caller.call(address, command, timeout_s)
        except (AerobeeError, OSError, TimeoutError):
            return None
