"""Which code makes messages of records: the compiled one where it is built, else Python.

The Python defines what is done: `client/cluster/decoding.py` decodes one record after the other and
says what is wrong with one, `fields.py` has what a message is made of. `records` does the same at
once for as many plain records as stand one behind the other.
"""

from collections.abc import Callable
from typing import Any

from aerobee.client.compiled.fields import FIELDS, MessageDamage

__all__ = [
    "FIELDS",
    "MessageDamage",
    "MessageFields",
    "decode_run",
    "light",
    "measure",
    "rises",
]

DecodeRun = Callable[[Any, int, list[Any], type, Any, Any], int]
"""Appends the messages of the plain records from a byte on; returns where they end."""

decode_run: DecodeRun | None
try:
    from aerobee.client.compiled import records
    from aerobee.client.compiled.records import MessageFields, light, measure, rises
except ImportError:  # no compiler where this was installed, or another Python
    from aerobee.client.compiled.fields import MessageFields, light, measure, rises

    decode_run = None
else:
    decode_run = records.decode_run
