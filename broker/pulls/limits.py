"""How much one pull may bring: what the client asks for, and what settings allow."""

import msgspec

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.remoting.headers.pull import PullMessageRequest


class PullLimits(msgspec.Struct, frozen=True, gc=False):
    """What settings allow for one pull; a read that begins on the disk brings less."""

    count_max: int
    full_count_max: int  # of pulls that ask for a full reply
    bytes_max: int

    @classmethod
    def of(cls, settings: BrokerSettings) -> "PullLimits":
        """Return those of settings."""
        return cls(
            settings.max_transfer_count_on_message_in_memory,
            settings.full_reply_count_max,
            settings.max_transfer_bytes_on_message_in_memory,
        )

    def messages_of(self, header: PullMessageRequest) -> int:
        """Return how many messages a pull gets at most, at least one."""
        if header.full_reply:
            return self.full_count_max
        return max(1, min(header.max_msg_nums, self.count_max))

    def bytes_of(self, header: PullMessageRequest) -> int:
        """Return how many bytes its records have at most; RocketMQ's broker asks no client."""
        wish = header.max_msg_bytes
        return self.bytes_max if wish is None else min(wish, self.bytes_max)
