"""Remarks in RocketMQ's own words, for people who search their logs for them."""

from typing import Final

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
