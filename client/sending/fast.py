"""Which code writes single sends and reads their answers: compiled where it is built and wanted.

`compiled/lane.pyx` does what `handles.py`, `offers.py` and `rings.py` say.
AEROBEE_CLIENT_COMPILED=0 in the environment of the process asks for the Python, which does the same
more slowly.
"""

import os
from typing import TYPE_CHECKING, Final

from aerobee.client.sending.handles import Handle
from aerobee.client.sending.offers import Head, Heads, Sender
from aerobee.client.sending.rings import Ring

WANTED: Final = os.environ.get("AEROBEE_CLIENT_COMPILED", "1") != "0"

is_compiled = False
if WANTED and not TYPE_CHECKING:  # its types are those of the Python
    try:
        from aerobee.client.compiled.lane import Handle, Head, Heads, Ring, Sender
    except ImportError:  # no compiler where this was installed, or another Python
        pass
    else:
        is_compiled = True

SendHandle = Handle
"""Its name for users."""

__all__ = ["Handle", "Head", "Heads", "Ring", "SendHandle", "Sender", "is_compiled"]
