"""Types of the compiled module; see record_runs.pyx."""

from aerobee.storage.cold.residency import Copied, Resident
from aerobee.storage.reading import Gather

copied: Copied
gather: Gather
resident: Resident
