"""What holds for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# By default an example may take 0.2 s, and the first ones a second: limits that a busy machine breaks, not the code.
settings.register_profile("agentflow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("agentflow")
