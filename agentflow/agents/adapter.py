"""Between agentflow and ``run()``: what is passed in, and what the thing that comes back means. Pure.

``run(data, ...)`` gets ``data`` first, and of :data:`OFFERED` whatever it names, or all with ``**kwargs``. It returns

- a number (float, int, bool, a numpy scalar, a 0-d array or tensor): the reward;
- ``{completion_id: number}`` where every key is the id of a recorded call: a reward a call, and the headline is that
  of the call that started last;
- ``{name: number}``: named metrics; the headline is the one that ``reward_key`` names, else ``reward``, else the
  only one;
- None: the episode is rejected.

Anything else, and NaN or infinity anywhere, is an invalid reward: the episode failed.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import numbers
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from agentflow.episode import Call, Episode, Kind, Outcome

OFFERED = ("base_url", "http_client", "api_key", "model", "seed", "episode_id", "sample_index")
MODEL_NAME = "default"
MOST_METRICS = 1000  # a result is one line of a file and one frame of the control channel
LONGEST_NAME = 300


@dataclass(frozen=True)
class Ending:
    """How an attempt ended. ``fatal``: no episode of this run can ever have a headline reward, so stop it."""

    outcome: Outcome
    kind: Kind | None = None
    reward: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    call_rewards: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
    traceback: str = ""
    fatal: bool = False


class NotARewardError(ValueError):
    """A value that is no finite number; one sentence."""


def takes(run: Callable[..., Any]) -> frozenset[str]:
    """Which of :data:`OFFERED` to pass to ``run`` by keyword; the first parameter is the data's, whatever its name."""
    try:
        parameters = list(inspect.signature(run).parameters.values())
    except ValueError:  # written in C and mute: give it the data only
        return frozenset()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        data_name = {p.name for p in parameters[:1] if p.kind is not p.VAR_KEYWORD}
        return frozenset(OFFERED) - data_name
    named = {p.name for p in parameters[1:] if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return frozenset(OFFERED) & named


def episode_seed(episode: Episode) -> int:
    """The ``seed`` that ``run()`` may ask for: 31 bits, the same for every attempt at an episode."""
    text = f"{episode.seed}/{episode.id}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") >> 1


def ending_of(value: object, calls: Sequence[Call], reward_key: str = "") -> Ending:
    """What the value that ``run()`` returned means.

    Args:
        calls: the episode's recorded calls in order of their start.
        reward_key: the metric that the user chose as the headline, or "".
    """
    if value is None:
        return Ending(Outcome.REJECTED)
    try:
        if isinstance(value, Mapping):
            return _of_mapping(value, calls, reward_key)
        return Ending(Outcome.SCORED, reward=number(value))
    except NotARewardError as e:
        return Ending(Outcome.FAILED, Kind.INVALID_REWARD, error=f"run() returned {e}.")


def number(value: object) -> float:
    """A finite float of whatever holds one number; raises :class:`NotARewardError` that says what it got instead."""
    shown = show(value)
    if inspect.isawaitable(value):
        raise NotARewardError(f"{shown}: an 'await' is missing")
    if getattr(value, "ndim", None) == 0 and callable(getattr(value, "item", None)):
        value = value.item()  # type: ignore[attr-defined]
    if not isinstance(value, numbers.Real | Decimal):
        raise NotARewardError(f"{shown}; a reward is one number, a dict of numbers, or None")
    try:
        result = float(value)
    except (OverflowError, ValueError) as e:
        raise NotARewardError(f"{shown}, which is no float ({e})") from e
    if not math.isfinite(result):
        raise NotARewardError(f"{shown}; a reward has to be finite")
    return result


def show(value: object) -> str:
    """A bounded ``repr`` with the type, for a message; a ``__repr__`` that raises does not pass."""
    return f"{reprlib.repr(value)} ({type(value).__name__})"


def _of_mapping(value: Mapping[object, object], calls: Sequence[Call], reward_key: str) -> Ending:
    if not value:
        raise NotARewardError("an empty dict; a reward is one number, a dict of numbers, or None")
    named: dict[str, float] = {}
    for key, entry in value.items():
        if not isinstance(key, str) or not _is_name(key):
            raise NotARewardError(f"a dict with the key {show(key)}; keys are metric names or ids of calls")
        try:
            named[key] = number(entry)
        except NotARewardError as e:
            raise NotARewardError(f"a dict whose '{key}' is {e}") from e
    ids = [call.id for call in calls]
    if named.keys() <= set(ids):
        last = next(i for i in reversed(ids) if i in named)
        return Ending(Outcome.SCORED, reward=named[last], call_rewards=named)
    if len(named) > MOST_METRICS:
        raise NotARewardError(f"a dict of {len(named)} metrics; {MOST_METRICS} are the most")
    headline = _headline(named, reward_key)
    if headline is None:
        return _no_headline(named, ids, reward_key)
    reward = named.pop(headline)
    return Ending(Outcome.SCORED, reward=reward, metrics=named)


def _is_name(key: str) -> bool:
    """Short enough for a table, and text that can be written (no lone surrogates)."""
    return len(key) <= LONGEST_NAME and key == key.encode("utf-8", "replace").decode()


def _headline(named: Mapping[str, float], reward_key: str) -> str | None:
    if reward_key in named:
        return reward_key
    if "reward" in named:
        return "reward"
    return next(iter(named)) if len(named) == 1 and not reward_key else None


def _no_headline(named: Mapping[str, float], ids: Sequence[str], reward_key: str) -> Ending:
    names = ", ".join(list(named)[:20])
    recorded = named.keys() & set(ids)
    if recorded:
        why = f"only {len(recorded)} of its {len(named)} keys are ids of recorded calls"
    elif reward_key:
        why = f"rollout.reward_key={reward_key} is not among them"
    else:
        why = "none is called 'reward': choose the headline with rollout.reward_key=NAME"
    return Ending(
        Outcome.FAILED, Kind.INVALID_REWARD, error=f"run() returns several metrics ({names}) and {why}.", fatal=True
    )
