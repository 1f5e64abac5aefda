"""What the log calls what keeps a group from its messages, as keys of `Outages`."""

from aerobee.client.message import MessageQueue


def consuming_from(broker_name: str, group: str) -> str:
    """Name the whole of what a group does with one broker: it is not reached, or refuses it."""
    return f"consuming from {broker_name} in group {group!r}"


def pulling(queue: MessageQueue, group: str) -> str:
    """Name the pulls of one queue: what it holds cannot be read."""
    return f"pulling {queue} for group {group!r}"
