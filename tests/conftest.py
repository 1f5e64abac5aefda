"""Settings of all tests: hypothesis does not judge by the clock of a machine that may be busy."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "aerobee",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,  # a failure can be replayed from what it printed
)
settings.load_profile("aerobee")
