"""Stands for `aerobee.storage` where aerobee-server is not installed, and says what to type."""

from aerobee.remoting.extras import refuse

refuse("broker", "aerobee.storage", run=__name__ == "__main__")
