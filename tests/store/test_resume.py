"""What a resume owes, and when it is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.episode import Episode, EpisodeResult, Outcome
from agentflow.store import counted, differences, owed, read_manifest, stays
from agentflow.store.manifest import render
from agentflow.store.reader import latest

replace = msgspec.structs.replace


def ended(item, sample=0, attempt=0, outcome=Outcome.SCORED, final=True):
    return EpisodeResult(item, sample, attempt, outcome, final=final)


def test_a_resume_owes_what_is_missing_lost_cancelled_or_between_two_tries():
    results = latest(
        [
            ended("scored"),
            ended("failed", outcome=Outcome.FAILED),
            ended("rejected", outcome=Outcome.REJECTED),
            ended("lost", attempt=3, outcome=Outcome.LOST),
            ended("cancelled", outcome=Outcome.CANCELLED),
            ended("again", attempt=1, outcome=Outcome.FAILED, final=False),
            ended("of another run", outcome=Outcome.LOST),
        ]
    )
    items = ["scored", "failed", "rejected", "lost", "cancelled", "again", "missing"]
    assert owed(results, items, 1, seed=7) == [
        Episode("lost", 0, 4, 7),
        Episode("cancelled", 0, 1, 7),
        Episode("again", 0, 2, 7),
        Episode("missing", 0, 0, 7),
    ]


def test_what_is_not_owed_stays():
    assert stays(ended("scored"))
    assert stays(ended("failed", outcome=Outcome.FAILED))
    assert not stays(ended("lost", outcome=Outcome.LOST))
    assert not stays(ended("again", outcome=Outcome.FAILED, final=False))


def test_more_samples_and_more_items_are_owed_when_a_run_grows():
    results = latest([ended("a", 0), ended("a", 1)])
    assert [e.id for e in owed(results, ["a", "b"], 3)] == ["a/2", "b/0", "b/1", "b/2"]


def test_results_of_other_items_and_of_more_samples_do_not_count():
    results = [ended("a", 0), ended("a", 1), ended("gone", 0)]
    assert counted(results, ["a", "b"], 1) == [ended("a", 0)]
    assert counted(results, [], 1) == results


@given(
    st.lists(
        st.builds(
            ended,
            st.sampled_from("abc"),
            st.integers(0, 2),
            st.integers(0, 5),
            st.sampled_from(list(Outcome)),
            st.booleans(),
        )
    ),
    st.integers(1, 3),
)
def test_playing_what_is_owed_leaves_nothing_owed_and_never_repeats_an_attempt(attempts, n_samples):
    results = latest(attempts)
    episodes = owed(results, ["a", "b", "c"], n_samples)
    assert len({e.id for e in episodes}) == len(episodes)
    for e in episodes:
        last = results.get((e.item_id, e.sample_index))
        assert e.attempt == (0 if last is None else last.attempt + 1)
    played = {**results, **latest(ended(e.item_id, e.sample_index, e.attempt) for e in episodes)}
    assert owed(played, ["a", "b", "c"], n_samples) == []


def rules(manifest, **changes):
    return replace(manifest, rules=replace(manifest.rules, **changes))


def data(manifest, **changes):
    return replace(manifest, data=replace(manifest.data, **changes))


def test_nothing_differs_between_a_manifest_and_itself_read_back(tmp_path: Path, manifest):
    manifest = rules(manifest, sampling={"stop": ("a", "b"), "temperature": 1}, roles={"judge": {"names": ("j",)}})
    (tmp_path / "run.json").write_bytes(render(manifest))
    assert differences(read_manifest(tmp_path), manifest) == []


def test_items_and_samples_may_grow(manifest):
    grown = data(rules(manifest, n_samples=8), n_items=4, ids=("a", "b", "c", "d"))
    assert differences(manifest, grown) == []


def test_workers_scheduler_concurrency_and_an_upgrade_may_be_anything(manifest):
    config = {"scheduler": {"type": "slurm"}, "rollout": {"max_concurrent_rollouts": 9, "backend": "vllm:d8"}}
    other = replace(
        manifest, config=config, versions={"agentflow": "9.9"}, run_id="r2", created_at=1.0, git=None, command=("x",)
    )
    assert differences(manifest, other) == []


def test_the_model_of_a_role_may_be_served_elsewhere(manifest):
    here, there = (
        rules(manifest, roles={"user": {"model": "m", "base_url": [f"http://127.0.0.1:{port}"]}}) for port in (1, 2)
    )
    assert differences(here, there) == []


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (lambda m: rules(m, model="huge"), ["model: tiny -> huge"]),
        (lambda m: rules(m, sampling={}), ["sampling temperature: 0.7 -> not set"]),
        (lambda m: rules(m, sampling={"temperature": 0.7, "top_k": 5}), ["sampling top_k: not set -> 5"]),
        (lambda m: rules(m, engine={"chat_template": "x" * 90}), [f"engine chat_template: not set -> {'x' * 57}..."]),
        (lambda m: rules(m, roles={"judge": {"model": "j"}}), ['role judge: not set -> {"model":"j"}']),
        (lambda m: rules(m, seed=2), ["seed: 1 -> 2"]),
        (lambda m: rules(m, failed_reward=-1.0), ["failed_reward: 0.0 -> -1.0"]),
        (lambda m: rules(m, reward_key="acc"), ["reward_key: not set -> acc"]),
        (lambda m: rules(m, episode_timeout_s=None), ["episode_timeout_s: 60.0 -> not set"]),
        (lambda m: rules(m, n_samples=1), ["n_samples: 2 -> 1 (may only grow)"]),
        (lambda m: replace(m, agent=replace(m.agent, name="agent:Other")), ["agent: agent:MathAgent -> agent:Other"]),
        (lambda m: replace(m, agent_kwargs={"max_turns": 9}), ["agent argument max_turns: 4 -> 9"]),
        (lambda m: data(m, fingerprint="0"), [f"data fingerprint: {'f' * 57}... -> 0"]),
        (lambda m: data(m, recipe="none"), ["data recipe: gsm8k -> none"]),
        (lambda m: data(m, n_items=2, ids=("a", "b")), ["number of items: 3 -> 2 (may only grow)"]),
        (lambda m: data(m, ids=("a", "c", "b")), ["data, id of item 1 (and perhaps more): b -> c"]),
        (
            lambda m: replace(m, agent=replace(m.agent, modules={"agent.py": "c" * 64, "new.py": "d" * 64})),
            [
                "agent source agent.py: aaaaaaaaaaaa -> cccccccccccc (sha256 of the file)",
                "agent source new.py: not imported -> imported",
                "agent source tools.py: imported -> not imported",
            ],
        ),
    ],
)  # fmt: skip
def test_each_change_that_decides_the_score_is_one_line(manifest, change, lines):
    assert differences(manifest, change(manifest)) == lines


def test_another_version_of_the_grader_is_a_difference_where_both_are_known(manifest):
    old = replace(manifest, versions={"math-verify": "0.9.0", "openai": "3.0"})
    new = replace(manifest, versions={"math-verify": "0.10.0", "openai": "3.1"})
    assert differences(old, new) == ["version of math-verify: 0.9.0 -> 0.10.0"]
    assert differences(manifest, new) == []
