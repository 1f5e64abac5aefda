"""Types of the compiled module; see record_runs.pyx."""

from aerobee.storage.disk.residency import Copied, Resident
from aerobee.storage.reads.reading import Gather

copied: Copied
gather: Gather
resident: Resident
