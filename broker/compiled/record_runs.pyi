"""Types of the compiled module; see record_runs.pyx."""

from aerobee.storage.cold.residency import Resident
from aerobee.storage.reading import Gather

gather: Gather
resident: Resident
