"""For all tests: property tests have no deadlines, since a busy machine is not a wrong result.

They try 50 examples each in ``make test`` and 200 in ``make test-all`` (``HYPOTHESIS_PROFILE=all``), where none says otherwise.
"""

import os
import signal

from hypothesis import HealthCheck, settings

COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("sanderling", max_examples=50, **COMMON)
settings.register_profile("all", max_examples=200, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "sanderling"))

# A shell that starts tests in the background has them ignore Ctrl-C, which some of them press.
signal.signal(signal.SIGINT, signal.default_int_handler)
