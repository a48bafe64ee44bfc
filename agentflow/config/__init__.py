"""The typed configuration: YAML and ``key=value``, with AReaL's key names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentflow.config.loading import load_config
    from agentflow.config.model import Config

__all__ = ["Config", "load_config"]


def __getattr__(name: str) -> object:
    """Import pydantic only when the configuration is used: ``agentflow --help`` must answer at once."""
    if name == "Config":
        from agentflow.config.model import Config

        return Config
    if name == "load_config":
        from agentflow.config.loading import load_config

        return load_config
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
