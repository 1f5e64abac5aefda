"""What RocketMQ's keys of retention mean to the store."""

import logging
from pathlib import Path
from typing import Any

import pytest
from support.servers.live_broker import live_broker

from aerobee.broker.settings.keys import BrokerSettings


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"diskSpaceCleanForciblyRatio": "99"}, {"disk_ratio_force": 0.85}),
        ({"diskSpaceCleanForciblyRatio": "1"}, {"disk_ratio_force": 0.3}),
        ({"diskSpaceWarningLevelRatio": "99"}, {"disk_ratio_max": 0.9}),
        ({"diskSpaceWarningLevelRatio": "1"}, {"disk_ratio_max": 0.35}),
        ({"rocketmq.broker.diskSpaceWarningLevelRatio": "0.5"}, {"disk_ratio_max": 0.5}),
        ({"rocketmq.broker.diskSpaceWarningLevelRatio": "0.99"}, {"disk_ratio_max": 0.9}),
        ({"rocketmq.broker.diskSpaceCleanForciblyRatio": "0.01"}, {"disk_ratio_force": 0.3}),
        ({"rocketmq.broker.diskSpaceCleanForciblyRatio": "0"}, {"disk_ratio_force": 0.85}),
        ({"commitLogBytesMax": "1000"}, {"log_bytes_max": 1000}),
        ({"deleteFileBatchMax": "3"}, {"clean_files_max": 3}),
        ({"deleteCommitLogFilesInterval": "0"}, {"remove_interval_ms": 0}),
        ({"cleanResourceInterval": "1000"}, {"clean_interval_ms": 1000}),
    ],
)
def test_a_key_reaches_the_store(given: dict[str, str], meant: dict[str, Any]) -> None:
    """Ratios within the limits that RocketMQ moves them into; a JVM property wins."""
    settings, warnings = BrokerSettings.load(options=given, environ={})
    assert not warnings
    assert {name: getattr(settings.store, name) for name in meant} == meant


@pytest.mark.parametrize(
    ("hours", "timers", "told"), [(47, True, 1), (47, False, 0), (48, True, 0)]
)
async def test_a_log_that_is_too_short_for_timers_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, hours: int, timers: bool, told: int
) -> None:
    """Messages that wait longer than their log file is kept would be lost."""
    async with live_broker(tmp_path, file_reserved_time=hours, timer_wheel_enable=timers):
        found = [each for each in caplog.records if "retention_is_short" in each.getMessage()]
    assert [each.levelno for each in found] == [logging.WARNING] * told


async def test_a_change_that_makes_it_too_short_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once for each change, and not for others."""
    async with live_broker(tmp_path, file_reserved_time=72) as live:
        for hours in (72, 24, 24, 60, 12):
            changed = live.broker.settings.changed({"fileReservedTime": str(hours)})
            live.broker.live.change(changed)
        found = [each for each in caplog.records if "retention_is_short" in each.getMessage()]
        assert len(found) == 2
