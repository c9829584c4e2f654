"""What all unit tests have in common."""

from hypothesis import HealthCheck, settings

# How fast examples are made and run is a matter of what else the machine does: no property depends on it.
settings.register_profile("kompat", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("kompat")
