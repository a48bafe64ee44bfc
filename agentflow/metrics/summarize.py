"""From results to a summary. Pure, and the same whatever the order of the results."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import msgspec

from agentflow.episode import Call, EpisodeResult, Kind, Outcome
from agentflow.metrics.at_k import PASS_HAT, AtK, best_of_k, over_items, pass_at_k, pass_hat_k
from agentflow.metrics.interval import Interval, ItemMean, item_mean
from agentflow.metrics.summary import KindCount, Scoring, Summary, WarningCount, WorkerUse
from agentflow.metrics.usage import covered_s, role_uses, worker_use

COUNTED = frozenset({Outcome.SCORED, Outcome.FAILED})
TIMEOUTS = frozenset({Kind.TIMEOUT, Kind.CALL_TIMEOUT})
ALL_REJECTED = "run() returned None in all of them; is a return missing?"

K = TypeVar("K", bound=Hashable)
Values = dict[str, list[float]]  # by item id


def summarize(results: Iterable[EpisodeResult], scoring: Scoring) -> Summary:
    """All numbers of a run; :class:`Summary` says what each means.

    Args:
        results: in any order. Several attempts at an episode may be among them: the last one counts.

    Raises:
        ValueError: an episode is scored with a reward or a metric that is no finite number.
    """
    attempts = list(results)
    ended = final_attempts(attempts)
    rewards = rewards_by_item(ended, scoring)
    items = max(len({r.item_id for r in attempts}), scoring.n_items or 0)
    expected = items * scoring.n_samples
    counts = Counter(r.outcome for r in ended)
    counted = counts[Outcome.SCORED] + counts[Outcome.FAILED]
    binary = all(r.reward in (0.0, 1.0) for r in ended if r.outcome is Outcome.SCORED)
    passes = _passes(ended) if binary else []
    return Summary(
        headline=PASS_HAT if binary and scoring.headline == PASS_HAT else "reward",
        reward=item_mean(rewards.values(), scoring.reward_range),
        bounds=_bounds(ended, rewards, scoring) if counts[Outcome.LOST] else None,
        coverage=counted / max(expected, len(ended)) if expected else None,
        items=items,
        n_samples=scoring.n_samples,
        expected=expected,
        counts={outcome.value: counts[outcome] for outcome in Outcome},
        missing=max(0, expected - sum(r.sample_index < scoring.n_samples for r in ended)),
        retried=_retried(attempts),
        kinds=_kinds(ended),
        timeout_share=sum(r.kind in TIMEOUTS for r in ended if r.outcome in COUNTED) / counted if counted else None,
        binary=binary,
        pass_at=_passing(passes, scoring.n_samples, pass_at_k) if binary else [],
        pass_hat=_passing(passes, scoring.n_samples, pass_hat_k) if binary else [],
        best_of=[] if binary else over_items(rewards.values(), scoring.n_samples, best_of_k, scoring.reward_range),
        metrics=_metrics(ended),
        roles=role_uses(ended),
        workers=_workers(ended, scoring),
        groups=_groups(ended, scoring),
        warnings=_warnings(ended),
        lowest=_lowest(ended),
        elapsed_s=_elapsed(ended),
    )


def final_attempts(attempts: Iterable[EpisodeResult]) -> list[EpisodeResult]:
    """The attempt that counts of each episode, in order of ids: the last one, if it is final."""
    last: dict[tuple[str, int], EpisodeResult] = {}
    for r in attempts:
        other = last.get(_key(r))
        if other is None or _rank(r, other) > _rank(other, r):
            last[_key(r)] = r
    return [r for _, r in sorted(last.items()) if r.final]


def rewards_by_item(ended: Iterable[EpisodeResult], scoring: Scoring) -> Values:
    """What each counted episode counts in the headline, by item.

    Raises:
        ValueError: a reward is no finite number.
    """
    rewards: Values = {}
    for r in ended:
        if r.outcome is Outcome.FAILED:
            rewards.setdefault(r.item_id, []).append(scoring.failed_reward)
        elif r.outcome is Outcome.SCORED:
            rewards.setdefault(r.item_id, []).append(_finite(r.reward, r, "reward"))
    return rewards


def _key(r: EpisodeResult) -> tuple[str, int]:
    return r.item_id, r.sample_index


def _rank(r: EpisodeResult, other: EpisodeResult) -> tuple[int, bool, bytes]:
    # Two lines of the same attempt do not happen; should they, the choice must still not hang on their order.
    tie = r.attempt == other.attempt and r.final == other.final
    return r.attempt, r.final, msgspec.json.encode(r) if tie else b""


def _finite(value: float | None, r: EpisodeResult, name: str) -> float:
    if value is None or not math.isfinite(value):
        raise ValueError(f"Episode {r.id} is scored, but its {name} is {value}: only finite numbers can be counted.")
    return float(value)


def _bounds(ended: Iterable[EpisodeResult], rewards: Values, scoring: Scoring) -> Interval:
    lost = Counter(r.item_id for r in ended if r.outcome is Outcome.LOST)
    low, high = (
        item_mean([rewards.get(i, []) + [end] * lost[i] for i in rewards.keys() | lost.keys()]).mean
        for end in scoring.reward_range
    )
    assert low is not None
    assert high is not None
    return Interval(low, high)


def _passes(ended: Iterable[EpisodeResult]) -> list[list[float]]:
    """1 for a pass, 0 for none, by item: a failed episode did not pass, whatever it counts in the mean."""
    passes: defaultdict[str, list[float]] = defaultdict(list)
    for r in ended:
        if r.outcome in COUNTED:
            passes[r.item_id].append(float(r.outcome is Outcome.SCORED and r.reward == 1.0))
    return list(passes.values())


def _passing(passes: list[list[float]], n_samples: int, estimate: Callable[[int, int, int], float | None]) -> list[AtK]:
    return over_items(passes, n_samples, lambda one, k: estimate(len(one), int(sum(one)), k))


def _kinds(ended: Sequence[EpisodeResult]) -> list[KindCount]:
    without_number = (Outcome.FAILED, Outcome.LOST)
    is_score_missing = not any(r.outcome is Outcome.SCORED for r in ended)
    of_kind: defaultdict[tuple[Outcome, Kind | None], list[EpisodeResult]] = defaultdict(list)
    for r in ended:
        if r.outcome in without_number or (r.outcome is Outcome.REJECTED and is_score_missing):
            of_kind[r.outcome, r.kind].append(r)
    kinds = []
    for (outcome, kind), results in of_kind.items():
        said = ALL_REJECTED if outcome is Outcome.REJECTED else ""
        error, (alike, example) = _count((said or r.error.strip().partition("\n")[0], r.id) for r in results)[0]
        kinds.append(KindCount(outcome, kind, len(results), error, alike, example))
    return sorted(kinds, key=lambda k: -k.episodes)


def _warnings(ended: Iterable[EpisodeResult]) -> list[WarningCount]:
    found = _count((text, r.id) for r in ended for text in dict.fromkeys(r.warnings))
    return [WarningCount(text, n, example) for text, (n, example) in found]


def _count(pairs: Iterable[tuple[K, str]]) -> list[tuple[K, tuple[int, str]]]:
    """How often each thing occurs and the first id that has it, most frequent first."""
    counts: Counter[K] = Counter()
    first: dict[K, str] = {}
    for thing, episode_id in pairs:
        counts[thing] += 1
        first.setdefault(thing, episode_id)
    return [(thing, (n, first[thing])) for thing, n in counts.most_common()]


def _metrics(ended: Iterable[EpisodeResult]) -> dict[str, ItemMean]:
    by_name: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for r in ended:
        if r.outcome is Outcome.SCORED:
            for name, value in r.metrics.items():
                by_name[name][r.item_id].append(_finite(value, r, name))
    return {name: item_mean(by_name[name].values()) for name in sorted(by_name)}


def _groups(ended: Iterable[EpisodeResult], scoring: Scoring) -> dict[str, dict[str, ItemMean]]:
    parts: defaultdict[str, defaultdict[str, list[EpisodeResult]]] = defaultdict(lambda: defaultdict(list))
    for r in ended:
        for column, value in r.groups.items():
            parts[column][value].append(r)
    return {
        column: {value: _headline(parts[column][value], scoring) for value in sorted(parts[column], key=_by_number)}
        for column in sorted(parts)
    }


def _by_number(value: str) -> tuple[bool, int, str]:
    """Levels 1, 2, ... 10 in this order, words behind."""
    is_number = value.removeprefix("-").isdecimal() and len(value) < 20
    return not is_number, int(value) if is_number else 0, value


def _workers(ended: Iterable[EpisodeResult], scoring: Scoring) -> list[WorkerUse]:
    episodes: defaultdict[str, list[EpisodeResult]] = defaultdict(list)
    calls: defaultdict[str, list[Call]] = defaultdict(list)
    for r in ended:
        episodes[r.worker].append(r)
        for call in r.calls:
            calls[call.worker].append(call)
    names = sorted((episodes.keys() | calls.keys()) - {""})
    return [worker_use(name, _headline(episodes[name], scoring), calls[name]) for name in names]


def _retried(attempts: Iterable[EpisodeResult]) -> int:
    """Attempts are numbered from 0, so the last one says how many went before, also where only that one is at hand."""
    last: dict[tuple[str, int], int] = {}
    for r in attempts:
        last[_key(r)] = max(r.attempt, last.get(_key(r), 0))
    return sum(last.values())


def _lowest(ended: Iterable[EpisodeResult]) -> str | None:
    scored = [r for r in ended if r.outcome is Outcome.SCORED and r.reward is not None]
    return min(scored, key=lambda r: (r.reward, r.id)).id if scored else None


def _headline(ended: Sequence[EpisodeResult], scoring: Scoring) -> ItemMean:
    return item_mean(rewards_by_item(ended, scoring).values(), scoring.reward_range)


def _elapsed(ended: Sequence[EpisodeResult]) -> float | None:
    # Not from the first start to the last end: a run that was stopped and resumed was not played in between.
    played = [(r.started_at, r.started_at + r.wall_s) for r in ended if r.started_at > 0]
    return covered_s(played) if played else None
