"""Ready-made agents: one turn, several turns with feedback, tools.

Agents like any other, and models of how to write one. See ``docs/workflows.md``.
"""

from agentflow.workflows.multi_turn import MultiTurnWorkflow
from agentflow.workflows.rlvr import RLVRWorkflow
from agentflow.workflows.tools import MaxTurnsExceeded, ToolWorkflow

__all__ = ["MaxTurnsExceeded", "MultiTurnWorkflow", "RLVRWorkflow", "ToolWorkflow"]
