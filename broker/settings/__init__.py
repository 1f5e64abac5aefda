"""What can be set: the keys, the values in force, and changes while the broker runs."""

from aerobee.broker.settings.keys import BrokerSettings

__all__ = ["BrokerSettings"]
