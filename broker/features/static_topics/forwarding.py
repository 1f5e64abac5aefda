"""Requests about older stretches of logical queues, which other brokers have (RpcClientImpl)."""

import asyncio
import time
from typing import Final

from aerobee.broker.cluster.parts import ClusterStanding
from aerobee.broker.features.static_topics.mapped import LOGICAL
from aerobee.broker.settings.live import Live
from aerobee.remoting.bodies import ClusterInfo, decode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import AerobeeError, NotConnected, RequestError
from aerobee.remoting.headers.typed import Header, encode_header

TIMEOUT_S: Final = 3.0  # forwardTimeout
FRESH_S: Final = 5.0  # how often nameservers are asked where brokers are, at most
MASTER_ID: Final = 0
UNDER_WAY_MAX: Final = 1024  # of all clients; each holds no more than its answer


class OtherBrokers:
    """Calls brokers by their names; where they are, the nameservers say."""

    def __init__(self, live: Live, cluster: ClusterStanding) -> None:
        self._live = live
        self._calls = cluster.calls
        self._addresses: dict[str, str] = {}
        self._doubted: set[str] = set()  # did not answer where they were
        self._asked_s = float("-inf")
        self._turn = asyncio.Lock()
        self._under_way = 0

    async def ask(self, broker: str, code: int, header: Header) -> Command:
        """Ask a broker about its physical queue; return its reply, whatever its code.

        Raises RequestError (SYSTEM_ERROR) where it cannot be reached, SYSTEM_BUSY where too many
        such requests are under way.
        """
        if self._under_way >= UNDER_WAY_MAX:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY, "too many requests wait for the brokers of older queues"
            )
        ext = encode_header(header) | {LOGICAL: "false", "bname": broker}
        self._under_way += 1
        try:
            address = await self._address(broker)
            return await self._calls.call(address, Command(code=code, ext=ext), TIMEOUT_S)
        except (AerobeeError, OSError, TimeoutError) as error:
            if isinstance(error, RequestError):
                raise
            if isinstance(error, NotConnected):
                self._addresses.pop(broker, None)  # it may have moved
            else:
                self._doubted.add(broker)  # so it may, and the connection to nobody still stands
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"broker {broker} does not answer: {error}"
            ) from None
        finally:
            self._under_way -= 1

    async def _address(self, broker: str) -> str:
        if not self._is_known(broker):
            async with self._turn:  # who comes while nameservers are asked waits for the answer
                if not self._is_known(broker) and time.monotonic() - self._asked_s >= FRESH_S:
                    await self._look()
        address = self._addresses.get(broker)
        if address is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"cannot find addr for broker {broker}")
        return address

    def _is_known(self, broker: str) -> bool:
        return broker in self._addresses and broker not in self._doubted

    async def _look(self) -> None:
        """Ask the first nameserver that answers where all brokers are."""
        self._asked_s = time.monotonic()
        for server in self._live.current.nameservers:
            try:
                request = Command(RequestCode.GET_BROKER_CLUSTER_INFO)
                reply = await self._calls.call(server, request, TIMEOUT_S)
                if reply.code != ResponseCode.SUCCESS:
                    continue
                found = decode_body(ClusterInfo, reply.body).broker_addr_table
            except (AerobeeError, OSError, TimeoutError):
                continue
            masters = {name: data.broker_addrs.get(MASTER_ID) for name, data in found.items()}
            self._addresses = {name: address for name, address in masters.items() if address}
            self._doubted.clear()
            return
