"""What people see: progress while a run runs, the table at its end, a stored run or episode again."""

from agentflow.report.compare import compare_runs
from agentflow.report.progress import Progress
from agentflow.report.show import show_episode, show_run
from agentflow.report.terminal import final_table

__all__ = ["Progress", "compare_runs", "final_table", "show_episode", "show_run"]
