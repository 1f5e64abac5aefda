"""The settings of what is kept for how long, and of what happens as the disk fills."""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from aerobee.broker.settings.values import Milliseconds
from aerobee.remoting.config.settings import Guarded, ServerSettings

_CLEAN: Final = (10, 95)
_FORCIBLY: Final = (30, 85)
_WARNING: Final = (35, 90)
TIMER_HOURS_MIN: Final = 48
"""What RocketMQ's timer files need of the log: they name records of up to two days ago."""


def _into(limits: tuple[int, int]) -> AfterValidator:
    """Move a ratio into its limits, as RocketMQ does instead of refusing it."""
    return AfterValidator(lambda value: min(max(value, limits[0]), limits[1]))


_CleanRatio = Annotated[int, _into(_CLEAN), Field(ge=_CLEAN[0], le=_CLEAN[1])]
_ForcibleRatio = Annotated[int, _into(_FORCIBLY), Field(ge=_FORCIBLY[0], le=_FORCIBLY[1])]
_WarningRatio = Annotated[int, _into(_WARNING), Field(ge=_WARNING[0], le=_WARNING[1])]
_Fraction = Annotated[float, Field(ge=0, le=1)]


class RetentionKeys(ServerSettings):
    """RocketMQ's keys, in percent of a disk; its JVM properties are keys here, as fractions.

    A JVM property that is not 0 wins over the key of the same meaning, within the same limits.
    """

    file_reserved_time: Guarded[int] = Field(default=72, ge=1)  # hours
    delete_when: Guarded[str] = Field(
        default="04", pattern=r"^\s*0*(1?[0-9]|2[0-3])(\s*;\s*0*(1?[0-9]|2[0-3]))*[\s;]*$"
    )  # hours of the day, as Integer.parseInt reads them
    clean_file_forcibly_enable: Guarded[bool] = True  # false: a full disk makes nothing expire
    disk_max_used_space_ratio: Guarded[_CleanRatio] = 75
    disk_space_clean_forcibly_ratio: Guarded[_ForcibleRatio] = 85
    disk_space_warning_level_ratio: Guarded[_WarningRatio] = 90
    jvm_clean_forcibly_ratio: Guarded[_Fraction] = Field(
        default=0.0, validation_alias="rocketmq.broker.diskSpaceCleanForciblyRatio"
    )
    jvm_warning_level_ratio: Guarded[_Fraction] = Field(
        default=0.0, validation_alias="rocketmq.broker.diskSpaceWarningLevelRatio"
    )
    # ours: of the whole log; the oldest files go above it, whatever their age; 0: no limit
    commit_log_bytes_max: Guarded[int] = Field(default=0, ge=0)
    clean_resource_interval: Milliseconds = 10_000
    delete_file_batch_max: int = Field(default=10, ge=1)
    delete_commit_log_files_interval: int = Field(default=100, ge=0, le=3_600_000)

    @property
    def retention_limits(self) -> dict[str, Any]:
        """What the message store has to know of them, by its names."""
        return {
            "disk_ratio_max": _chosen(
                self.jvm_warning_level_ratio, self.disk_space_warning_level_ratio, _WARNING
            ),
            "disk_ratio_force": _chosen(
                self.jvm_clean_forcibly_ratio, self.disk_space_clean_forcibly_ratio, _FORCIBLY
            ),
            "disk_ratio_clean": self.disk_max_used_space_ratio / 100,
            "cleans_forcibly": self.clean_file_forcibly_enable,
            "retention_hours": self.file_reserved_time,
            "delete_hours": tuple(
                int(hour) for hour in self.delete_when.split(";") if hour.strip()
            ),
            "log_bytes_max": self.commit_log_bytes_max,
            "clean_interval_ms": self.clean_resource_interval,
            "clean_files_max": self.delete_file_batch_max,
            "remove_interval_ms": self.delete_commit_log_files_interval,
        }

    def retention_warnings(self, *, timers: bool) -> list[str]:
        """Say what an operator should know of these settings; `timers`: whether those are on."""
        hours = self.file_reserved_time
        if not timers or hours >= TIMER_HOURS_MIN:
            return []
        told = (
            f"fileReservedTime is {hours}: with timerWheelEnable messages may wait for longer than"
            f" that, and go with their log files; set {TIMER_HOURS_MIN} hours or more"
        )
        return [told]


def _chosen(fraction: float, percent: int, limits: tuple[int, int]) -> float:
    return min(max(fraction, limits[0] / 100), limits[1] / 100) if fraction else percent / 100
