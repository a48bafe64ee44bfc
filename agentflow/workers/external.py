"""An endpoint that somebody else runs, taken as a worker."""

from __future__ import annotations

from typing import Any

import aiohttp
import anyio
from yarl import URL

from agentflow.channel.messages import WorkerInfo
from agentflow.episode import DEFAULT_ROLE
from agentflow.errors import UsageError, system_reason
from agentflow.proxy import proxy_to

# Asked with an empty object: an endpoint that has the path complains about the object, not about the path.
PROBED = {"responses": "/v1/responses", "messages": "/v1/messages", "completions": "/v1/completions",
          "embeddings": "/v1/embeddings"}  # fmt: skip
LACKING = (404, 405, 501)
SHOWN_MODELS = 20


async def probe(
    url: str, api_key: str, model: str | None, timeout_s: float, *, name: str = "endpoint-0", role: str = DEFAULT_ROLE
) -> WorkerInfo:
    """Ask an OpenAI-compatible endpoint what it serves.

    Args:
        url: its root, with or without ``/v1``.
        api_key: sent as bearer token; empty: none is sent.
        model: the model to use; None: the only one that it lists.
        timeout_s: for each answer.

    Raises:
        UsageError: it cannot be reached, refuses the key, does not have the model, or has several and none was named.
    """
    root = root_url(url)
    async with _session(root, api_key, timeout_s) as session:
        try:
            served = choose_model(root, model, await _listed_models(session, root), role)
            apis = await _served_apis(session, root)
        except (aiohttp.ClientError, OSError, UnicodeError) as e:  # the last: no name of a host, http://a..b
            why = _reason(e, timeout_s)
            by = "--base-url URL" if role == DEFAULT_ROLE else f"roles.{role}.base_url=URL"
            raise UsageError(f"The endpoint {root} cannot be reached ({why}): is it up? {by} names another.") from e
    return WorkerInfo(name, root, served, api_key, apis, role, is_external=True)


async def answer_to_nothing(endpoint: WorkerInfo, timeout_s: float) -> int | str:
    """Ask an endpoint for a chat without messages: the status of its answer, or a clause that says why it gives none.

    What the path answers, and not the list of models, says whether the model is there: llama.cpp lists it while it
    loads it.
    """
    try:
        async with (
            _session(endpoint.url, endpoint.api_key, timeout_s) as session,
            session.post(
                f"{endpoint.url}/v1/chat/completions", json={"model": endpoint.model}, allow_redirects=False
            ) as reply,
        ):
            return reply.status
    except (aiohttp.ClientError, OSError) as e:
        return _reason(e, timeout_s)


def root_url(url: str) -> str:
    """Without ``/v1`` and trailing slashes. Raises UsageError for what is no URL of a server."""
    try:
        parsed = URL(url)
    except ValueError as e:
        raise UsageError(f"{url} is not a URL: {e}.") from e
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise UsageError(f"{url} is not the URL of an endpoint: it should look like http://127.0.0.1:8000/v1.")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def choose_model(root: str, asked: str | None, listed: list[str] | None, role: str = DEFAULT_ROLE) -> str:
    """The model to ask for. ``listed`` None: the endpoint has no list. Pure; raises UsageError."""
    by = "--model" if role == DEFAULT_ROLE else f"roles.{role}.model=NAME"
    if asked is not None:
        if listed and asked not in listed:
            raise UsageError(f"The endpoint {root} does not serve {asked}, but {_some(listed)}: choose one with {by}.")
        return asked
    if not listed:
        raise UsageError(f"The endpoint {root} does not say which models it serves: name one with {by}.")
    if len(listed) > 1:
        raise UsageError(f"The endpoint {root} serves {len(listed)} models, {_some(listed)}: choose one with {by}.")
    return listed[0]


def _session(root: str, api_key: str, timeout_s: float) -> aiohttp.ClientSession:
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    return aiohttp.ClientSession(headers=headers, timeout=timeout, proxy=proxy_to(root))


def _reason(error: Exception, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_s:g} s"
    # aiohttp's own sentence names the address again, and "ssl:default" also where no TLS was asked for.
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        return system_reason(error.os_error)
    return str(error) or type(error).__name__


def _some(names: list[str]) -> str:
    more = len(names) - SHOWN_MODELS
    return ", ".join(names[:SHOWN_MODELS]) + (f" and {more} more" if more > 0 else "")


async def _listed_models(session: aiohttp.ClientSession, root: str) -> list[str] | None:
    async with session.get(f"{root}/v1/models") as reply:
        if reply.status in (401, 403):
            raise UsageError(
                f"The endpoint {root} refuses the API key (status {reply.status}): set the variable that --api-key-env "
                "names to a valid one."
            )
        if reply.status != 200:
            return None
        try:
            body: Any = await reply.json(content_type=None)
            return [str(m["id"]) for m in body["data"]]
        except (ValueError, KeyError, TypeError):
            return None


async def _served_apis(session: aiohttp.ClientSession, root: str) -> tuple[str, ...]:
    """``chat``, and those of the others that it does not deny."""
    served: dict[str, bool] = {}

    async def ask(api: str, path: str) -> None:
        async with session.post(root + path, json={}) as reply:
            served[api] = reply.status not in LACKING

    try:
        async with anyio.create_task_group() as tasks:
            for api, path in PROBED.items():
                tasks.start_soon(ask, api, path)
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
    return ("chat", *(api for api in PROBED if served[api]))
