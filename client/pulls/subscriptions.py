"""What a group wants from a topic: everything, some tags, or what an SQL92 expression selects."""

from dataclasses import dataclass, field
from typing import Final

from aerobee.client.errors import InvalidUse, text
from aerobee.client.message import check_topic
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.bodies import SubscriptionData
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.message.tags import java_string_hash
from aerobee.remoting.words import SQL92, TAG

ALL: Final = "*"


@dataclass(slots=True)
class Subscription:
    """One topic's subscription in one group (SubscriptionData.java, FilterAPI.java).

    `expression` is "*", tags joined by "||", or an SQL92 expression. `version` grows whenever the
    owned queues change and goes out with heartbeats; pulls carry the `first_version`, which no
    broker can find too new for it (SUBSCRIPTION_NOT_LATEST): the expression stays the same.
    """

    topic: str
    expression: str = ALL
    expression_type: str = TAG
    tags: frozenset[str] = frozenset()
    version: int = field(default_factory=wall_clock_ms)
    first_version: int = field(init=False)

    def __post_init__(self) -> None:
        self.first_version = self.version

    def select(self, messages: list[ReceivedMessage]) -> list[ReceivedMessage]:
        """Return the messages that carry one of the tags, compared as text.

        The broker compares hashes alone, which may collide; what it dropped or what is dropped
        here counts as consumed.
        """
        wanted = self.tags
        if not wanted:
            return messages
        return [message for message in messages if message.tags in wanted]

    def change(self, other: "Subscription") -> bool:
        """Want from now on what `other` wants; False if that is the same."""
        if (other.expression, other.expression_type) == (self.expression, self.expression_type):
            return False
        self.expression, self.expression_type = other.expression, other.expression_type
        self.tags = other.tags
        self.renew()
        self.first_version = self.version
        return True

    def renew(self) -> None:
        """Take a higher version."""
        self.version = max(wall_clock_ms(), self.version + 1)

    def body(self) -> SubscriptionData:
        """Write it as heartbeats carry it."""
        return SubscriptionData(
            class_filter_mode=False,
            topic=self.topic,
            sub_string=self.expression,
            tags_set=sorted(self.tags),
            code_set=sorted(java_string_hash(tag) for tag in self.tags),
            sub_version=self.version,
            expression_type=self.expression_type,
        )


def parse_subscription(topic: str, expression: str = ALL, sql: str | None = None) -> Subscription:
    """Read what a user wants from `topic`: tags as in "a || b", or an SQL92 expression.

    Raises InvalidMessage for a bad topic, InvalidUse for both at once, for what is no text, and for
    tags that name nothing.
    """
    check_topic(topic)
    text("tags", expression, "several are one text, 'a || b'")
    if sql is not None:
        if expression not in ("", ALL):
            raise InvalidUse(f"topic {topic!r}: subscribe by tags or by sql, not by both")
        if not text("sql", sql).strip():
            raise InvalidUse(f"topic {topic!r}: the SQL92 expression is empty")
        return Subscription(topic, sql, SQL92)
    if expression in ("", ALL):
        return Subscription(topic)
    tags = frozenset(tag.strip() for tag in expression.split("||")) - {""}
    if not tags:
        raise InvalidUse(f"topic {topic!r}: {expression!r} names no tag; write 'a || b' or '*'")
    return Subscription(topic, expression, TAG, tags)
