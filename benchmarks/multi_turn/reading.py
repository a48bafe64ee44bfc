"""The requests of a run, out of its run directory. Also of a run of another agent, and of one that was killed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from agentflow.episode import Call, EpisodeResult
from agentflow.errors import StoreError
from agentflow.metrics.usage import answered
from agentflow.store.files import TRACES, read_error


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """One measured request.

    Args:
        episode: ``<item>/<sample>``.
        turn: how many messages of a user the conversation held: 1 for the first turn.
        started_at: when it reached agentflow, in Unix seconds.
        queue_s: until it went out to the worker that answered.
        latency_s: until the last byte was handed on.
        arrivals_s: of the pieces of its reply, from ``started_at``; empty where it was not streamed.
        added_tokens: of the prompt, beyond that of the episode's previous request.
        input_tokens: the same without the previous reply, where the conversation goes on with it.
        tokens_asked: ``max_tokens``; None where it set no limit.
        error: what the client was told instead of a (whole) reply.
    """

    episode: str
    turn: int
    started_at: float
    queue_s: float
    latency_s: float
    arrivals_s: tuple[float, ...] = ()
    prompt_tokens: int = 0
    added_tokens: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    tokens_asked: int | None = None
    error: str = ""

    @property
    def is_counted(self) -> bool:
        """Whether the endpoint told its tokens: no prompt is without any."""
        return self.prompt_tokens > 0

    @property
    def ended_at(self) -> float:
        """Unix seconds."""
        return self.started_at + self.latency_s

    @property
    def ttft_s(self) -> float | None:
        """Until the first piece with output in it."""
        return self.arrivals_s[0] if self.arrivals_s else None

    @property
    def gaps_s(self) -> list[float]:
        """Between a piece and the next."""
        return [later - sooner for sooner, later in zip(self.arrivals_s, self.arrivals_s[1:], strict=False)]

    @property
    def tpot_s(self) -> float | None:
        """From the first piece to the last, by the tokens after the first."""
        if len(self.arrivals_s) < 2 or self.completion_tokens < 2:
            return None
        return (self.arrivals_s[-1] - self.arrivals_s[0]) / (self.completion_tokens - 1)


class _Message(msgspec.Struct):
    role: str = ""


class _Asked(msgspec.Struct):
    messages: list[Any] = []
    input: Any = None
    stream: bool | None = False
    max_tokens: int | None = None


class Line(msgspec.Struct):
    """A line of ``traces.jsonl``, as far as it is needed here."""

    call: Call
    request: _Asked | str
    messages: dict[str, _Message | str | list[Any] | int | float | bool | None] = {}
    arrivals_s: tuple[float, ...] = ()


_decode = msgspec.json.Decoder(Line).decode


def read_requests(run_dir: Path, results: Iterable[EpisodeResult]) -> Iterator[tuple[EpisodeResult, list[Request]]]:
    """The requests of each result, without those that only asked what a word costs.

    Raises:
        StoreError: the traces cannot be read, or are broken.
    """
    path = run_dir / TRACES
    try:
        with open(path, "rb") as f:
            for result in results:
                lines = []
                if result.trace is not None:
                    f.seek(result.trace.offset)
                    lines = [_decode(line) for line in f.read(result.trace.length).splitlines()]
                yield result, requests_of(result.id, lines)
    except FileNotFoundError:
        return
    except OSError as e:
        raise read_error(path, e) from e
    except msgspec.DecodeError as e:
        raise StoreError(f"{path} is broken ({e}): the file was changed after it was written.") from e


def requests_of(episode: str, lines: Iterable[Line]) -> list[Request]:
    """The requests of one episode's trace, in order of their start. Pure."""
    turns = _Turns()
    counted = [(turns.count(line), line) for line in lines]
    found = [_request(episode, turn, line) for turn, line in counted if not _is_probe(line)]
    found.sort(key=lambda request: request.started_at)
    prompt = reply = 0  # of the previous one
    for place, request in enumerate(found):
        if request.prompt_tokens:
            added = max(0, request.prompt_tokens - prompt)
            found[place] = msgspec.structs.replace(request, added_tokens=added, input_tokens=max(0, added - reply))
            prompt, reply = request.prompt_tokens, request.completion_tokens
    return found


def _is_probe(line: Line) -> bool:
    asked = line.request
    return isinstance(asked, _Asked) and not asked.stream and asked.max_tokens == 1


class _Turns:
    """How many messages of a user each line's conversation holds; see :mod:`agentflow.runner.recorder`."""

    def __init__(self) -> None:
        self._is_user: dict[str, bool] = {}
        self._counts: list[int] = []

    def count(self, line: Line) -> int:
        for name, message in line.messages.items():
            self._is_user[name] = isinstance(message, _Message) and message.role == "user"
        users = sum(map(self._users, _conversation(line)))
        self._counts.append(users)
        return max(1, users)

    def _users(self, name: Any) -> int:
        if not isinstance(name, str):
            return 0
        return self._counts[int(name[1:])] if name.startswith("#") else self._is_user.get(name, False)


def _conversation(line: Line) -> list[Any]:
    if isinstance(line.request, str):
        return []
    return line.request.input if isinstance(line.request.input, list) else line.request.messages


def _request(episode: str, turn: int, line: Line) -> Request:
    call = line.call
    return Request(
        episode=episode,
        turn=turn,
        started_at=call.started_at,
        queue_s=call.queue_s,
        latency_s=call.latency_s,
        arrivals_s=line.arrivals_s,
        prompt_tokens=call.prompt_tokens,
        cached_tokens=call.cached_tokens,
        completion_tokens=call.completion_tokens,
        tokens_asked=line.request.max_tokens if isinstance(line.request, _Asked) else None,
        error="" if answered(call) else call.error or f"HTTP {call.status}",
    )
