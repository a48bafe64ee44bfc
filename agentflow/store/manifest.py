"""``run.json``: what a run is, enough to repeat it and to tell whether a resume would mix two runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from agentflow.channel.messages import AgentInfo
from agentflow.errors import StoreError
from agentflow.store.files import MANIFEST, read_error, write_atomically

FORMAT = 1


class DataInfo(msgspec.Struct, frozen=True):
    """The data set of a run.

    Args:
        source: as the user named it.
        recipe: how rows became items.
        fingerprint: sha256 of the raw data.
        n_items: how many were selected.
        ids: ids of the selected items, in order. A grown ``--limit`` must begin with the same ones. May be empty
            where items are submitted one by one.
    """

    source: str
    recipe: str = ""
    fingerprint: str = ""
    n_items: int = 0
    ids: tuple[str, ...] = ()


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What decides the score, beside the agent and the data.

    Args:
        model: name or path of the default role's model.
        model_fingerprint: of the checkpoint's files; empty where they are not at hand.
        sampling: the values that the user set (``gconfig`` names).
        engine: settings by which the same model would see or say something else: chat template, tool and reasoning
            parsers, dtype, adapters, context length. Names are free.
        roles: the other model roles, without keys.
        n_samples: episodes an item; may grow.
        failed_reward: what a failed episode counts in the headline.
        reward_range: for the bounds of lost episodes; does not touch the score itself.
    """

    model: str = ""
    model_fingerprint: str = ""
    sampling: dict[str, Any] = {}
    engine: dict[str, Any] = {}
    roles: dict[str, Any] = {}
    seed: int = 1
    n_samples: int = 1
    failed_reward: float = 0.0
    reward_range: tuple[float, float] = (0.0, 1.0)
    reward_key: str = ""
    reward_fn: str = ""
    episode_timeout_s: float | None = None
    request_timeout_s: float | None = None


class GitState(msgspec.Struct, frozen=True):
    """The commit of the working directory; ``dirty``: tracked files differ from it."""

    commit: str
    dirty: bool


class Forced(msgspec.Struct, frozen=True, kw_only=True):
    """That a run was resumed although what decides its score had changed, and what it was until then.

    Args:
        at: Unix timestamp in seconds.
        mixed: of what the run has episodes of two kinds since; empty where it has only lost items or samples.
        changed: one line a difference, the old value -> the new one.
        versions: until then, as in :class:`Manifest`; likewise the fields below. Of the data the ids are left out.
    """

    at: float
    mixed: tuple[str, ...]
    changed: tuple[str, ...]
    versions: dict[str, str]
    agent: AgentInfo
    agent_kwargs: dict[str, Any]
    rules: Rules
    data: DataInfo


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    Args:
        created_at: Unix timestamp in seconds.
        versions: package -> version: python, agentflow, and those that take part in a score.
        config: the resolved configuration without secrets.
        agent: qualified name and fingerprints of the project modules that the agent imports.
        agent_path: as the user named it, for a resume; empty for an agent given from Python.
        agent_kwargs: its constructor's arguments.
        rules: model, sampling and the like, as they decided the score; ``config`` holds everything else.
        command: the command line; empty from Python.
        cwd: the working directory, to which relative paths of the configuration and of the agent belong.
        git: None without git.
        format: version of the layout of the run directory.
        forced: its resumes with ``--force`` after a change of what decides the score, in order.
    """

    run_id: str
    created_at: float
    versions: dict[str, str]
    config: dict[str, Any]
    agent: AgentInfo
    agent_path: str = ""
    agent_kwargs: dict[str, Any] = {}
    command: tuple[str, ...] = ()
    cwd: str = ""
    git: GitState | None = None
    format: int = FORMAT
    forced: tuple[Forced, ...] = ()
    rules: Rules
    data: DataInfo


def to_json(value: Any) -> bytes:
    """JSON in which whatever JSON has no word for (an object given to an agent from Python) is its ``repr``."""
    # An address in a repr differs from process to process and says nothing.
    return msgspec.json.encode(value, enc_hook=lambda thing: re.sub(r" at 0x[0-9a-f]+", "", repr(thing)))


def render(manifest: Manifest) -> bytes:
    """The text of ``run.json``: indented, but for the item ids, which stay on one line so that the rest is readable."""
    ids = msgspec.json.encode(manifest.data.ids)
    # `data` is the last field and `ids` the last of it, so the last empty list in the text is theirs.
    hollow = msgspec.structs.replace(manifest, data=msgspec.structs.replace(manifest.data, ids=()))
    before, empty, after = msgspec.json.format(to_json(hollow), indent=2).rpartition(b"[]")
    assert empty
    return before + ids + after + b"\n"


def write_manifest(run_dir: Path, manifest: Manifest) -> None:
    """Write or replace ``run.json``. Raises StoreError."""
    write_atomically(run_dir / MANIFEST, render(manifest))


def read_manifest(run_dir: Path) -> Manifest:
    """Read ``run.json``.

    Raises:
        StoreError: there is none, it is broken, or a newer agentflow wrote it.
    """
    path = run_dir / MANIFEST
    try:
        data = path.read_bytes()
    except OSError as e:
        raise read_error(path, e) from e
    try:
        written = msgspec.json.decode(data, type=_Format).format
        if written > FORMAT:
            raise StoreError(f"{path} has format {written}, this agentflow reads {FORMAT}: update agentflow.")
        return msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as e:
        raise StoreError(f"{path} is broken ({e}): restore it from a copy, or start a new run.") from e


class _Format(msgspec.Struct):
    format: int = FORMAT
