"""The console has no broker at hand: what it says of settings is held to a broker's here."""

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.console.restart_keys import RESTART_KEYS
from aerobee.remoting.config.settings import Trait


def test_the_keys_that_need_a_restart_are_those_of_the_broker() -> None:
    """None is missing, and none works at once."""
    keys = BrokerSettings.keys()
    assert {keys[name] for name in BrokerSettings.having(Trait.AT_START)} == RESTART_KEYS
