"""What a resume with --force leaves in a run."""

from __future__ import annotations

import msgspec
import pytest

from agentflow.store import forced, mixtures, read_manifest
from agentflow.store.manifest import write_manifest

replace = msgspec.structs.replace


def resumed(old, at=1.0, agent=None, **rules):
    """``old`` after a forced resume with another file of the agent, or other rules."""
    modules = {**old.agent.modules, **({"agent.py": agent * 64} if agent else {})}
    new = replace(old, agent=replace(old.agent, modules=modules), rules=replace(old.rules, **rules))
    return replace(new, forced=(*old.forced, forced(old, new, at)))


def test_every_version_is_kept_with_what_changed_and_when(manifest, tmp_path):
    twice = resumed(resumed(manifest, 1.0, agent="x"), 2.0, model="huge")
    write_manifest(tmp_path, twice)
    read = read_manifest(tmp_path)
    assert read == twice
    assert read.data.ids == ("a", "b", "c")
    first, second = read.forced
    assert (first.at, second.at) == (1.0, 2.0)
    assert first.changed == ("agent source agent.py: aaaaaaaaaaaa -> xxxxxxxxxxxx (sha256 of the file)",)
    assert second.changed == ("model: tiny -> huge",)
    assert (first.agent, first.rules, first.versions) == (manifest.agent, manifest.rules, manifest.versions)
    assert second.agent.modules["agent.py"] == "x" * 64
    assert (first.data.fingerprint, first.data.ids) == (manifest.data.fingerprint, ())


@pytest.mark.parametrize(
    ("change", "notes"),
    [
        (lambda m: m, []),
        (lambda m: resumed(m, n_samples=1), []),
        (lambda m: resumed(m, failed_reward=-1.0), []),
        (lambda m: resumed(m, agent="x"), ["a change of the agent: its numbers may mix two versions"]),
        (
            lambda m: resumed(m, agent="x", model="huge", sampling={}),
            ["a change of the agent, model and sampling temperature: its numbers may mix two versions"],
        ),
        (
            lambda m: resumed(resumed(m, agent="x"), agent="y", seed=2),
            ["a change of the agent and seed: its numbers may mix 3 versions"],
        ),
        (
            lambda m: resumed(m, agent="x", model="huge", sampling={}, seed=2, reward_key="style", reward_fn="f"),
            ["a change of the agent, model, sampling temperature, seed and 2 more: its numbers may mix two versions"],
        ),
    ],
    ids=["never", "fewer samples", "another count", "agent", "several", "twice", "many"],
)
def test_a_reader_is_told_what_the_numbers_mix(manifest, change, notes):
    assert mixtures(change(manifest)) == [f"resumed with --force after {note}" for note in notes]
