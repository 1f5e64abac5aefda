"""Tells in the log to which brokers there is a connection, and which are lost and back."""

import logging

from aerobee.client.cluster.connections import Connections
from aerobee.client.cluster.routes import RouteCache
from aerobee.remoting.net.connection import Connection

log = logging.getLogger(__name__)


class BrokerNews:
    """What a client's log says of its connections to brokers, by the brokers' names.

        INFO connected to broker-a (10.0.0.1:10911)
        WARNING connection to broker-a (10.0.0.1:10911) fails: closed by the peer
        INFO connection to broker-a (10.0.0.1:10911) works again, after 4.5 s and 9 failures

    Lines are as few as those of `Outages`. Nameservers are told of where none of them answers.
    """

    def __init__(self, connections: Connections, routes: RouteCache) -> None:
        self._connections = connections
        self._routes = routes
        connections.on_connected.append(self._connected)
        connections.on_not_connected.append(self._failed)

    def _connected(self, address: str, connection: Connection) -> None:
        if (broker := self._broker(address)) is None:
            return
        outages, what = self._routes.outages, f"connection to {broker}"
        if what in outages.lasting:
            outages.over(what)
        else:
            log.info("connected to %s", broker)
        connection.on_closed.append(lambda gone: self._lost(address, gone))

    def _lost(self, address: str, connection: Connection) -> None:
        if not self._connections.closed:
            self._failed(address, connection.close_reason)

    def _failed(self, address: str, why: object) -> None:
        if (broker := self._broker(address)) is not None:
            self._routes.outages.failed(f"connection to {broker}", _reason(address, why))

    def _broker(self, address: str) -> str | None:
        for name, addresses in self._routes.brokers.items():
            if address in addresses.values():
                return f"{name} ({address})"
        return None if address in self._routes.nameservers.addresses else f"broker {address}"


def _reason(address: str, why: object) -> str:
    return str(why).removeprefix(f"{address}: ")
