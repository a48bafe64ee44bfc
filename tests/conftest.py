"""What holds for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# By default an example may take 0.2 s, and the first ones a second: limits that a busy machine breaks, not the code.
# A gate has to say the same of the same code twice, so the examples are not drawn anew each time.
settings.register_profile("agentflow", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("agentflow")
