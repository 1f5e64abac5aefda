"""The setting of topics with a retention of their own."""

from aerobee.remoting.config.settings import ServerSettings


class TopicRetentionKeys(ServerSettings):
    """Whether the attribute `aerobee.retention.seconds` of topics is obeyed."""

    topic_retention_enable: bool = True  # ours
