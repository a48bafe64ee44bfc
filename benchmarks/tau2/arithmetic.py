"""The tool ``calculate`` by itself, for a reward process: the package is loaded with it, not in the time of a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.tau2.package import package_module
from benchmarks.tau2.world import STATELESS, Result, respond

_ENVIRONMENT = package_module("tau2.environment.environment").Environment
_TOOLS = {  # the domains that have it
    "airline": package_module("tau2.domains.airline.tools").AirlineTools,
    "retail": package_module("tau2.domains.retail.tools").RetailTools,
}


def calculate(domain: str, arguments: Mapping[str, Any]) -> Result:
    """What the domain's tool answers. It looks at no database, so there is none."""
    environment = _ENVIRONMENT(domain_name=domain, policy="", tools=_TOOLS[domain](None))
    return respond(environment, "assistant", "", STATELESS, arguments)
