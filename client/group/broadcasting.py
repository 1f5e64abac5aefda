"""Broadcasting: every member of a group gets every message, and remembers by itself how far."""

import enum
import logging
from dataclasses import replace
from typing import Final

from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import ClientSettings

log = logging.getLogger(__name__)

INSTANCE_NAME: Final = "DEFAULT"


class MessageModel(enum.Enum):
    """Who gets a message: one member of the group, or each of them (MessageModel.java)."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


def lasting_client(settings: ClientSettings) -> ClientSettings:
    """Return settings whose client id, "ip@DEFAULT", is the same after a restart.

    By its client id a member finds its file of offsets again; where a name is given it stays. Two
    members of a group on one machine therefore need two names (ClientConfig.java).
    """
    return settings if settings.instance_name else replace(settings, instance_name=INSTANCE_NAME)


async def drop_failed(messages: list[ReceivedMessage], delay_level: int) -> list[ReceivedMessage]:
    """Let go of messages whose handler failed: nobody sends them again to this member alone."""
    for message in messages:
        log.warning(
            "broadcasting, the message is dropped: its handler failed queue=%s offset=%d"
            " message_id=%s",
            message.queue,
            message.queue_offset,
            message.message_id,
        )
    return []


async def drop_spent(message: ReceivedMessage) -> bool:
    """Let go of a message that has failed too often in an ordered queue."""
    await drop_failed([message], 0)
    return True
