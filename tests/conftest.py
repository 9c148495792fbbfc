"""For all tests: property tests have no deadlines, since a busy machine is not a wrong result."""

from hypothesis import HealthCheck, settings

settings.register_profile("sanderling", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sanderling")
