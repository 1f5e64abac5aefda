"""The settings of the index of message keys."""

from pydantic import Field

from aerobee.remoting.config.settings import AtStart, Guarded, ServerSettings


class IndexKeys(ServerSettings):
    """Whether messages are found by their keys, and how large index files are."""

    message_index_enable: AtStart[bool] = True
    # files of another size, in a store that has some, are refused by name; RocketMQ maps 2 GiB
    max_hash_slot_num: AtStart[Guarded[int]] = Field(default=5_000_000, ge=1, le=100_000_000)
    max_index_num: AtStart[Guarded[int]] = Field(default=20_000_000, ge=2, le=50_000_000)
    default_query_max_num: int = Field(default=32, ge=1, le=10_000)
    max_msgs_num_batch: int = Field(default=64, ge=1, le=10_000)
