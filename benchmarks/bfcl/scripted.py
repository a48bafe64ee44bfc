"""An OpenAI-compatible server that plays the golden calls: what a perfect model would do, without a model.

::

    python -m benchmarks.bfcl.scripted multi_turn_base

prints its URL and serves until Ctrl-C. It knows a conversation by what the user has said so far, and makes the
golden calls of a turn in one message where the turn's number is even, one a message where it is odd.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from benchmarks.bfcl.calls import ApiCall
from benchmarks.bfcl.data import CATEGORIES, rows
from benchmarks.bfcl.golden import golden_call
from benchmarks.bfcl.package import handover_prompt, max_steps
from benchmarks.bfcl.task import Task, task_of
from benchmarks.scripted_server import Messages, Move, golden_application, known, options, play

Said = tuple[str, ...]  # by the user, so far


class GoldenPlayer:
    """Which calls come next in a conversation. Pure.

    Args:
        tasks: the conversations that it knows.
        drop: leaves out the ``first`` or the ``last`` golden call of each, or ``all`` of them.

    Raises:
        ValueError: two conversations begin alike and go on differently.
    """

    def __init__(self, tasks: Sequence[Task], drop: str = "") -> None:
        self._turns: dict[Said, list[ApiCall]] = {}
        for task in tasks:
            for said, calls in _played(task, drop):
                if self._turns.setdefault(said, calls) != calls:
                    raise ValueError(f"{task.id} begins as another conversation does, and goes on differently")

    def next_calls(self, messages: Messages) -> list[ApiCall]:
        """The calls of the next message; none where the turn is over. Raises KeyError for an unknown conversation."""
        users = [i for i, message in enumerate(messages) if message["role"] == "user"]
        calls = self._turns[tuple(messages[i]["content"] for i in users)]
        done = sum(message["role"] == "tool" for message in messages[users[-1] :])
        one_by_one = len(users) % 2 == 0 and len(calls) < max_steps()
        return calls[done : done + 1] if one_by_one else calls[done:]


def _played(task: Task, drop: str) -> list[tuple[Said, list[ApiCall]]]:
    turns = [[golden_call(source, task.involved_classes) for source in turn] for turn in task.ground_truth]
    with_calls = [turn for turn in turns if turn]
    if drop == "first":
        del with_calls[0][0]
    elif drop == "last":
        del with_calls[-1][-1]
    elif drop == "all":
        turns = [[] for _ in turns]
    spoken = [message["content"] for turn in task.question for message in turn or [{"content": handover_prompt()}]]
    return [(tuple(spoken[: i + 1]), calls) for i, calls in enumerate(turns)]


def main() -> None:
    """Serve until Ctrl-C."""
    parser = options("Plays the golden calls of BFCL.")
    parser.add_argument(
        "category", nargs="?", default=CATEGORIES[0], help=f"{', '.join(CATEGORIES)}; the first if none"
    )
    parser.add_argument("--drop", choices=("first", "last", "all"), default="", help="golden calls left out")
    given = parser.parse_args()
    play(lambda: _golden(given.category, given.drop), given.port)


def _golden(category: str, drop: str) -> web.Application:
    one = "; multi_turn is all four, and a server plays one of them" if category == "multi_turn" else ""
    known("category", category, CATEGORIES, one)
    player = GoldenPlayer([task_of(row) for row in rows(category)], drop)

    def move(messages: Messages) -> Move:
        return player.next_calls(messages) or "Done."

    return golden_application(move)


if __name__ == "__main__":
    main()
