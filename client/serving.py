"""Requests that brokers make of a client."""

from typing import TYPE_CHECKING

from aerobee.remoting.codes import RequestCode
from aerobee.remoting.headers.heartbeat import NotifyConsumerIdsChangedRequest
from aerobee.remoting.net.routes import Request, Routes

if TYPE_CHECKING:
    from aerobee.client.instance import ClientInstance

routes: Routes["ClientInstance"] = Routes("client")
"""All that a client answers; any other code gets REQUEST_CODE_NOT_SUPPORTED."""


@routes.on(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, NotifyConsumerIdsChangedRequest)
def notify_consumer_ids_changed(
    instance: "ClientInstance", request: Request[NotifyConsumerIdsChangedRequest]
) -> None:
    """Share the queues anew: a member joined or left (ClientRemotingProcessor.java)."""
    instance.members_changed(request.header.consumer_group)
