"""Types of the compiled module; see lane.pyx. They are those of the Python that does the same."""

from aerobee.client.sending.handles import Handle
from aerobee.client.sending.offers import Head, Heads, Sender
from aerobee.client.sending.rings import Ring

__all__ = ["Handle", "Head", "Heads", "Ring", "Sender"]
