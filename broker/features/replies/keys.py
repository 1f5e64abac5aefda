"""The settings of replies to requests."""

from pydantic import Field

from aerobee.remoting.config.settings import AtStart, ServerSettings


class ReplyKeys(ServerSettings):
    """How many replies may be on their way to requesters, and whether they are stored, too."""

    store_reply_message_enable: bool = True
    # ours: that wait for a requester's answer, of all; 0 serves no replies
    reply_pushes_max: AtStart[int] = Field(default=10_000, ge=0)
    reply_pushes_per_client_max: int = Field(default=1_000, ge=1)  # ours: of one that says nothing
