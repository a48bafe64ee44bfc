"""What ``--force`` leaves in a run: the record of a resume after a change of what decides the score. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from agentflow.store.manifest import Forced, Manifest
from agentflow.store.resume import differences, subjects

MOST_NAMED = 4


def forced(old: Manifest, new: Manifest, now: float) -> Forced:
    """The record of a resume of ``old`` as ``new``.

    Args:
        now: Unix timestamp.
    """
    return Forced(
        at=now,
        mixed=tuple(subjects(old, new)),
        changed=tuple(differences(old, new)),
        versions=old.versions,
        agent=old.agent,
        agent_kwargs=old.agent_kwargs,
        rules=old.rules,
        data=msgspec.structs.replace(old.data, ids=()),
    )


def mixtures(manifest: Manifest) -> list[str]:
    """What a reader of the run's numbers has to know of its forced resumes: a sentence, or none."""
    mixing = [one.mixed for one in manifest.forced if one.mixed]
    if not mixing:
        return []
    what = list(dict.fromkeys(name for names in mixing for name in names))
    versions = "two" if len(mixing) == 1 else str(len(mixing) + 1)
    return [f"resumed with --force after a change of {_listed(what)}: its numbers may mix {versions} versions"]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    if more > 0:
        return f"{', '.join(names[:MOST_NAMED])} and {more} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
