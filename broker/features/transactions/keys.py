"""The settings of transactions."""

from pydantic import Field

from aerobee.broker.settings.values import Milliseconds
from aerobee.remoting.config.settings import AtStart, ServerSettings


class TransactionKeys(ServerSettings):
    """How long a producer may take to decide, and how often it is asked."""

    transaction_enable: AtStart[bool] = True  # ours: false has none; what waits in the store stays
    reject_transaction_message: bool = False
    transaction_time_out: Milliseconds = 6000  # from the half message to the first check
    transaction_check_interval: Milliseconds = 30_000  # from one check to the next
    transaction_check_max: int = Field(default=15, ge=1)  # then it is given up
    transaction_metric_flush_interval: Milliseconds = 10_000
    open_transactions_max: int = Field(default=1_000_000, ge=1)  # ours: half a kilobyte each
