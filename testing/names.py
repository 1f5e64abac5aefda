"""What the clusters of all kinds call their brokers, and how much disk they use."""

from typing import Final

SEGMENT_BYTES: Final = 64 << 20  # of a test's log: less disk than the 1 GiB of a server


def broker_name(index: int) -> str:
    """Name brokers broker-a, broker-b, ... and by number after the 26th."""
    return f"broker-{chr(ord('a') + index)}" if index < 26 else f"broker-{index}"
