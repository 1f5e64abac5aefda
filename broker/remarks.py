"""Remarks in RocketMQ's own words, for people who search their logs for them."""

from typing import Final

FAQ: Final = "https://rocketmq.apache.org/docs/bestPractice/06FAQ"  # FAQUrl.DEFAULT_FAQ_URL


def further_details(remark: str) -> str:
    """Append where to read on, as FAQUrl.suggestTodo does."""
    return f"{remark}\nSee {FAQ} for further details."
