"""The settings of filters by properties."""

from pydantic import Field

from aerobee.remoting.config.settings import ServerSettings


class Sql92Keys(ServerSettings):
    """Whether expressions over properties are served, and how far one pull looks by them."""

    enable_property_filter: bool = False  # SQL92
    max_filter_message_size: int = Field(default=16_000, ge=20)
