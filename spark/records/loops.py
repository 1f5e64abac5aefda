"""Which code loops over records: the compiled one where it was built, else numpy.

`aerobee.spark.compiled.record_loops` exists after a build with a C compiler. It does in one pass
over the memory what numpy does in several. `NumpyLoops` defines what each pass gives, and
`CompiledLoops`, which is one, calls it where a pass cannot go on; nobody else asks which it is.
"""

from __future__ import annotations

from aerobee.spark.records.numpy_loops import NumpyLoops

chosen: NumpyLoops
"""The passes over records; tests put others here."""

try:
    from aerobee.spark.records.compiled_loops import CompiledLoops
except ImportError:  # no compiler where this was installed, or another Python
    chosen = NumpyLoops()
else:
    chosen = CompiledLoops()
