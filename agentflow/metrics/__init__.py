"""Numbers from results: the headline and its interval, pass@k, usage, workers side by side, comparison. Pure."""

from agentflow.metrics.at_k import PASS_HAT, AtK, best_of_k, pass_at_k, pass_hat_k
from agentflow.metrics.compare import Comparison, compare
from agentflow.metrics.interval import Interval, ItemMean, item_mean
from agentflow.metrics.stats import stats, tabulate_stats
from agentflow.metrics.summarize import summarize
from agentflow.metrics.summary import (
    KindCount,
    OwnMetrics,
    Percentiles,
    RoleUse,
    Scoring,
    Summary,
    WarningCount,
    WorkerUse,
)

__all__ = [
    "PASS_HAT",
    "AtK",
    "Comparison",
    "Interval",
    "ItemMean",
    "KindCount",
    "OwnMetrics",
    "Percentiles",
    "RoleUse",
    "Scoring",
    "Summary",
    "WarningCount",
    "WorkerUse",
    "best_of_k",
    "compare",
    "item_mean",
    "pass_at_k",
    "pass_hat_k",
    "stats",
    "summarize",
    "tabulate_stats",
]
