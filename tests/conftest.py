"""Settings of all tests: none judges by the clock of a busy machine, and Spark starts lean."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "aerobee",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,  # a failure can be replayed from what it printed
)
settings.load_profile("aerobee")

# Spark's sessions here live for seconds, in which an optimising compiler and a parallel garbage
# collector only take the cores: without them the tests of Spark need half the time.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
