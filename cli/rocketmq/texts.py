"""How mqadmin writes times and columns."""

import time


def moment(time_ms: int, *, millis: bool = False) -> str:
    """Write a time in ms since 1970 as the tools do, in this machine's time zone."""
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_ms / 1000))
    return f"{text},{time_ms % 1000:03d}" if millis else text


def at_least(text: str, count: int) -> str:
    """Return the first signs of a text (UtilAll.frontStringAtLeast)."""
    return text[:count]


def columns(form: str, *values: object) -> None:
    """Print a line of a table."""
    print(form % values)
