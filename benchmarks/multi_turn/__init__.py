"""How fast a backend serves multi-turn conversations: ``python -m benchmarks.multi_turn --help``."""
