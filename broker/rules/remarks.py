"""Remarks in RocketMQ's own words, for people who search their logs for them."""

from typing import Final

from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import Perm

FAQ: Final = "https://rocketmq.apache.org/docs/bestPractice/06FAQ"  # FAQUrl.DEFAULT_FAQ_URL


class Forbidden:
    """Header fields that tell a consumer what it may not do (ForbiddenType.java)."""

    BROKER: Final = {"forbiddenType": "1"}
    GROUP: Final = {"forbiddenType": "2"}
    TOPIC: Final = {"forbiddenType": "3"}
    BROADCASTING: Final = {"forbiddenType": "4"}
    SUBSCRIPTION: Final = {"forbiddenType": "5"}


def further_details(remark: str) -> str:
    """Append where to read on, as FAQUrl.suggestTodo does."""
    return f"{remark}\nSee {FAQ} for further details."


def topic_text(topic: TopicConfig) -> str:
    """Describe a topic as TopicConfig.toString does."""
    perm = "".join(
        letter if topic.perm & bit else "-"
        for letter, bit in (("R", Perm.READ), ("W", Perm.WRITE), ("X", Perm.INHERIT))
    )
    attributes = ", ".join(f"{key}={value}" for key, value in (topic.attributes or {}).items())
    return (
        f"TopicConfig [topicName={topic.topic_name}, readQueueNums={topic.read_queue_nums}, "
        f"writeQueueNums={topic.write_queue_nums}, perm={perm}, "
        f"topicFilterType={topic.topic_filter_type}, topicSysFlag={topic.topic_sys_flag}, "
        f"order={str(topic.order).lower()}, attributes={{{attributes}}}]"
    )
