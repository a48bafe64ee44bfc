"""The run directory: manifest, episodes, traces; append, read, resume."""

from agentflow.store.forced import forced, mixtures
from agentflow.store.lock import RunLock
from agentflow.store.manifest import DataInfo, Forced, GitState, Manifest, Rules, read_manifest
from agentflow.store.provenance import git_state, model_fingerprint, package_versions
from agentflow.store.reader import read_attempts, read_results
from agentflow.store.resume import counted, differences, owed, stays, unlike
from agentflow.store.store import Store, discard_unused
from agentflow.store.summary import write_summary
from agentflow.store.traces import read_calls

__all__ = [
    "DataInfo",
    "Forced",
    "GitState",
    "Manifest",
    "Rules",
    "RunLock",
    "Store",
    "counted",
    "differences",
    "discard_unused",
    "forced",
    "git_state",
    "mixtures",
    "model_fingerprint",
    "owed",
    "package_versions",
    "read_attempts",
    "read_calls",
    "read_manifest",
    "read_results",
    "stays",
    "unlike",
    "write_summary",
]
