"""Measurements of agentflow, and the benchmarks that it runs: a folder each, with ``agent.py`` and ``data.py``."""
