"""The settings of topics that store a producer's retry once."""

from pydantic import Field

from aerobee.remoting.config.settings import AtStart, ServerSettings


class DedupKeys(ServerSettings):
    """How much may be known of such topics; their windows are an attribute of each."""

    # ours: unique keys of all topics together, 70 bytes each; 0 switches the feature off
    dedup_entries_max: AtStart[int] = Field(default=1_000_000, ge=0, le=1 << 28)

    @property
    def stores_retries_once(self) -> bool:
        """Whether topics can have the attribute."""
        return self.dedup_entries_max > 0
