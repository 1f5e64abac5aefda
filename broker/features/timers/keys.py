"""The settings of messages with a time of their own."""

from pydantic import Field

from aerobee.broker.settings.values import Milliseconds
from aerobee.remoting.config.settings import AtStart, ServerSettings


class TimerKeys(ServerSettings):
    """How far away a time may be, and how what waits is kept."""

    timer_wheel_enable: AtStart[bool] = True
    timer_max_delay_sec: int = Field(default=3 * 24 * 3600, ge=1, le=365 * 24 * 3600)
    # seconds; what waits longer is stored once more then, so that the log need not be kept so long
    timer_roll_window_slot: AtStart[int] = 2 * 24 * 3600
    mapped_file_size_timer_log: AtStart[int] = Field(default=100 << 20, ge=4096, le=1 << 30)
    timer_flush_interval_ms: Milliseconds = 1000
    timer_congest_num_each_slot: int = Field(default=2**31 - 1, ge=1, le=2**32)
    timer_stop_enqueue: bool = False
    timer_stop_dequeue: bool = False
    disappear_time_after_start: AtStart[int] = Field(default=-1, ge=-1)  # ms without deliveries
    recall_message_enable: bool = False
    allow_recall_when_broker_not_writeable: bool = True
