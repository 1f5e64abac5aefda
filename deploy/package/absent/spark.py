"""Stands for `aerobee.spark` where aerobee-server is not installed, and says what to type."""

from aerobee.remoting.extras import refuse

refuse("spark", "aerobee.spark", run=__name__ == "__main__")
