"""The settings of light queues."""

from pydantic import Field

from aerobee.remoting.config.settings import AtStart, ServerSettings


class LightQueueKeys(ServerSettings):
    """RocketMQ fills light queues where both of the first two are true."""

    enable_lmq: AtStart[bool] = False
    enable_multi_dispatch: AtStart[bool] = False
    max_lmq_consume_queue_num: int = Field(default=20_000, ge=0)

    @property
    def light_queues(self) -> bool:
        """Whether light queues are filled and served."""
        return self.enable_lmq and self.enable_multi_dispatch
