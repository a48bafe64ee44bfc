"""agentflow: how good is this checkpoint as an agent?"""

__version__ = "0.1.0"
