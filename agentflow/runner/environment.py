"""The environment variables that user code sees in a runner, and those of one episode for a child process.

Several episodes share the process, so the environment cannot name one episode's URL. The variables that SDKs read
point at a tripwire of the gateway, which answers 400 and says why; a child process of an episode gets the right
values from :func:`episode_env`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, MutableMapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

NO_KEY = "use-your-episode-url"  # SDKs refuse to be made without any key

# Our own variables that let a process speak for this runner; taken out as soon as they are read.
CONTROL_VARIABLES = ("AGENTFLOW_TOKEN", "AGENTFLOW_TOKEN_FILE", "AGENTFLOW_CONTROL_URL", "AGENTFLOW_NAME")

QUIET_SDKS = {
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "LANGSMITH_TRACING": "false",
    "LANGSMITH_TRACING_V2": "false",
    "LANGCHAIN_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
}

_SECRET_NAME = re.compile(
    r"(^|_)(KEY|KEYS|TOKEN|AUTH|PAT)(_|$)|APIKEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|_PWD$|[A-Z]TOKEN$",
    re.IGNORECASE,
)


def looks_secret(name: str) -> bool:
    """True for names such as ``OPENAI_API_KEY``, ``HF_TOKEN``, ``AWS_SECRET_ACCESS_KEY``, ``PGPASSWORD``, ``SSH_KEY``.

    The words KEY, TOKEN, AUTH and PAT count between underscores; APIKEY, SECRET, PASSWORD, PASSWD, PASSPHRASE and
    CREDENTIAL anywhere; names may also end in TOKEN or _PWD. Values are not looked at.
    """
    return _SECRET_NAME.search(name) is not None


@dataclass(frozen=True)
class Cleaned:
    """What :func:`clean` did: the names that were removed, and every secret value seen, to be kept out of texts."""

    removed: tuple[str, ...]
    values: frozenset[str]


def clean(environ: MutableMapping[str, str], passed: Sequence[str], tripwire_url: str) -> Cleaned:
    """Make ``environ`` fit for user code, in place: secrets out, SDKs at the tripwire, SDK tracing off.

    Args:
        passed: names that keep the user's own values, also where these would be removed or point elsewhere.
        tripwire_url: base URL of the gateway's tripwire, ending in ``/v1``.
    """
    secrets = {name: value for name, value in environ.items() if looks_secret(name)}
    removed = tuple(sorted(name for name in secrets if name not in passed))
    for name in (*removed, *(n for n in CONTROL_VARIABLES if n in environ)):
        environ.pop(name, None)
    tripwire = endpoint_variables(tripwire_url, NO_KEY)
    environ.update({n: v for n, v in (tripwire | QUIET_SDKS).items() if n not in passed or n not in environ})
    for name in ("NO_PROXY", "no_proxy"):  # a proxy in the environment is not asked for the gateway
        hosts = [h for h in environ.get(name, "").split(",") if h]
        environ[name] = ",".join(dict.fromkeys([*hosts, "127.0.0.1", "localhost"]))
    return Cleaned(removed, frozenset(secrets.values()))


def endpoint_variables(base_url: str, api_key: str) -> dict[str, str]:
    """What OpenAI's, Anthropic's and LangChain's clients read. ``base_url`` ends in ``/v1``; Anthropic's has none."""
    return {
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_BASE": base_url,
        "OPENAI_API_KEY": api_key,
        "ANTHROPIC_BASE_URL": base_url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": api_key,
    }


@dataclass(frozen=True)
class EpisodeScope:
    """The episode that the current task or thread works for."""

    episode_id: str
    base_url: str
    api_key: str

    def variables(self) -> dict[str, str]:
        """What sets a child process's environment apart from the runner's."""
        return endpoint_variables(self.base_url, self.api_key) | {"AGENTFLOW_EPISODE_ID": self.episode_id}


current_scope: ContextVar[EpisodeScope | None] = ContextVar("agentflow_episode", default=None)


def episode_env(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment for a child process of the current episode: any client in it is then served and recorded.

    It is the runner's environment with this episode's ``OPENAI_BASE_URL``, ``OPENAI_API_KEY``,
    ``ANTHROPIC_BASE_URL``, ``ANTHROPIC_API_KEY`` and ``AGENTFLOW_EPISODE_ID``. Call it in ``run()``, in a task of it,
    or in a thread with its context (``asyncio.to_thread``).

    Raises:
        RuntimeError: outside an episode.
    """
    scope = current_scope.get()
    if scope is None:
        raise RuntimeError(
            "agentflow.episode_env() was called outside an episode: call it in run(), in a task that run() started, "
            "or in a thread with run()'s context (asyncio.to_thread)."
        )
    return dict(environ) | scope.variables()
