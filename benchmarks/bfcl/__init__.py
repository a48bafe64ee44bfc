"""BFCL v4, multi-turn: the Berkeley Function-Calling Leaderboard's conversations, played and scored by its own checker.

Data, simulated APIs and checker are those of the PyPI package ``bfcl-eval``; the episode is ours. See
``docs/benchmarks.md``.
"""
