"""Which code loops over records: the compiled one where it was built, else numpy.

`aerobee.spark.compiled.record_loops` exists after a build with a C compiler. It does in one pass
over the memory what numpy does in several; the numpy code remains the definition of what is done.
"""

from __future__ import annotations

from types import ModuleType

try:
    from aerobee.spark.compiled import record_loops
except ImportError:  # no compiler where this was installed, or another Python
    record_loops = None  # type: ignore[assignment]

loops: ModuleType | None = record_loops
"""The compiled loops, None where there are none; tests switch them off."""
