"""An OpenAI-compatible server that plays both sides of a conversation: the golden actions, without a model.

::

    python -m benchmarks.tau2.scripted airline

prints its URL and serves until Ctrl-C. It tells the user from the agent by their system messages, and a task by
the user's scenario. The user's first words name the task, so that the agent knows it as well. The agent makes its
golden calls, all of them in one message where their number is even, and asks the user to make the user's. Tasks that
share their scenario with others it plays with the data ``tau2:telecom_named`` and ``tau2:mock_named``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile

from aiohttp import web

from benchmarks.scripted_server import Messages, Move, golden_application, known, options, play
from benchmarks.tau2.data import DOMAINS, rows
from benchmarks.tau2.golden import DROPS, golden_actions, golden_words
from benchmarks.tau2.package import stop_tokens, task_of
from benchmarks.tau2.task import Task
from benchmarks.tau2.task import task_of as read_task

PLAYED = (*DOMAINS, "mock")
ENDING = "That is done"  # how the agent's last words begin
DID_IT = "I have done that."  # what the user says after a call


class GoldenPlayer:
    """What comes next in a conversation, for either side. Pure.

    Args:
        tasks: by the ids of their rows.
        drop: leaves out the ``first`` or the ``last`` golden call that changes something, or ``all`` calls.
    """

    def __init__(self, tasks: Mapping[str, Task], drop: str = "") -> None:
        self._actions = {id: golden_actions(task, drop) for id, task in tasks.items()}
        self._words = {id: golden_words(task, drop) for id, task in tasks.items()}
        scenarios = [(str(task_of(task.task).user_scenario), id) for id, task in tasks.items()]
        often = Counter(scenario for scenario, _ in scenarios)
        self._scenarios = {scenario: id for scenario, id in scenarios if often[scenario] == 1}

    def move(self, messages: Messages) -> Move:
        """Raises KeyError for a conversation that is none of the tasks'."""
        scenario = re.search(r"<scenario>\n(.*)\n</scenario>", messages[0]["content"], re.DOTALL)
        return self._user(scenario[1], messages[1:]) if scenario else self._agent(messages[1:])

    def _user(self, scenario: str, messages: Messages) -> Move:
        last = messages[-1]
        if last["role"] == "tool":
            return DID_IT
        asked = re.fullmatch(r"Please do step (\d+) of (.+)\.", last["content"])
        if asked:
            return [self._actions[asked[2]][int(asked[1])]]
        if last["content"].startswith(ENDING):
            return stop_tokens()[0]
        named = re.search(r"This is about (.+)\.", scenario)
        return named[0] if named else f"This is about {self._scenarios[scenario]}."

    def _agent(self, messages: Messages) -> Move:
        named = [re.fullmatch(r"This is about (.+)\.", message.get("content") or "") for message in messages]
        start, found = next((i, match) for i, match in enumerate(named) if match)
        id, since = found[1], messages[start:]
        done = sum(message["role"] == "tool" or message.get("content") == DID_IT for message in since)
        left = self._actions[id][done:]
        if not left:
            return self._words[id]
        mine = list(takewhile(lambda action: action.side == "assistant", left))
        if not mine:
            return f"Please do step {done} of {id}."
        return mine if len(self._actions[id]) % 2 == 0 else mine[:1]


def main() -> None:
    """Serve until Ctrl-C."""
    parser = options("Plays the golden actions of tau2, both sides.")
    parser.add_argument("domains", nargs="*", default=DOMAINS, help=f"{', '.join(PLAYED)}; the first three if none")
    parser.add_argument("--drop", choices=DROPS, default="", help="golden calls left out")
    given = parser.parse_args()
    play(lambda: _golden(given.domains, given.drop), given.port)


def _golden(domains: Sequence[str], drop: str) -> web.Application:
    for domain in domains:
        known("domain", domain, PLAYED, " (the first three together if none is given)")
    tasks = {row["id"]: read_task(row) for domain in domains for row in rows(domain)}
    return golden_application(GoldenPlayer(tasks, drop).move)


if __name__ == "__main__":
    main()
