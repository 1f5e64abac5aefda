"""Runs of hashes: what is made of records on their way to the log, and waits for the index.

They are in memory alone, in the machine's order, each a RUN and as many RUN_HASHes. A run is of
records one behind the other that were stored at the same time.
"""

import struct
from typing import Final

RUN: Final = struct.Struct("=qqqq")
"""Begin and end (positions), the time (ms), how many hashes."""
RUN_HASH: Final = struct.Struct("=Ii")
"""How far behind the begin the record stands, and a hash of it; in the order of the entries."""
