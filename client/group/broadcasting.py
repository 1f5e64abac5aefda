"""Broadcasting: every member of a group gets every message, and remembers by itself how far."""

import enum
from dataclasses import replace
from typing import Final

from aerobee.client.settings import ClientSettings
from aerobee.remoting import words

INSTANCE_NAME: Final = "DEFAULT"


class MessageModel(enum.Enum):
    """Who gets a message: one member of the group, or each of them (MessageModel.java)."""

    CLUSTERING = words.CLUSTERING
    BROADCASTING = words.BROADCASTING


def lasting_client(settings: ClientSettings) -> ClientSettings:
    """Return settings whose client id, "ip@DEFAULT", is the same after a restart.

    By its client id a member finds its file of offsets again; where a name is given it stays. Two
    members of a group on one machine therefore need two names (ClientConfig.java).
    """
    return settings if settings.instance_name else replace(settings, instance_name=INSTANCE_NAME)
