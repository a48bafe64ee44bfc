"""agentflow run examples/child/agent.py --limit 4

An agent that is a command-line program: it runs in a child process and knows only the usual environment variables.
"""

import asyncio
import sys
from pathlib import Path

from agentflow import episode_env
from agentflow.rewards import math_reward

PROGRAM = Path(__file__).with_name("answer.py")


class ChildAgent:
    dataset = "../math/problems.jsonl"

    async def run(self, data):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(PROGRAM),
            data["messages"][-1]["content"],
            env=episode_env(),  # OPENAI_BASE_URL and OPENAI_API_KEY of this episode
            stdout=asyncio.subprocess.PIPE,
        )
        answer, _ = await process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"answer.py ended with exit code {process.returncode}")
        return await math_reward(answer.decode(), data["answer"])
