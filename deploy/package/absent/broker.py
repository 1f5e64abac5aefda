"""Stands for `aerobee.broker` where aerobee-server is not installed, and says what to type."""

from aerobee.remoting.extras import refuse

refuse("broker", "aerobee.broker", run=__name__ == "__main__")
