"""Reading the calls of an attempt back from ``traces.jsonl``.

A line is one call, as :mod:`agentflow.runner.recorder` wrote it. Messages and tool lists stand there by content hash;
a line brings along the messages that its attempt shows for the first time, ``"#k"`` stands for all messages of the
attempt's line k, and ``tools.jsonl`` holds each tool list of the run once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from agentflow.episode import EpisodeResult
from agentflow.errors import StoreError
from agentflow.store.files import TOOLS, TRACES, read_error

# The field of a request that names messages by hash, by the end of its path. Other lists of strings are the agent's.
_CONVERSATIONS = {"/chat/completions": "messages", "/messages": "messages", "/responses": "input"}


class _ToolList(msgspec.Struct):
    tools: str
    schema: Any


def read_calls(run_dir: Path, result: EpisodeResult) -> list[dict[str, Any]]:
    """The calls of one attempt, in the order in which they ended, with messages and tools in full.

    Returns:
        one dict a call: ``episode``, ``attempt``, ``call`` (see :class:`agentflow.episode.Call`), ``api``,
        ``request`` and ``response``. Empty when the attempt made no call.

    Raises:
        StoreError: the trace cannot be read or is broken; names the file and where in it.
    """
    if result.trace is None:
        return []
    path = run_dir / TRACES
    where = f"{path}, bytes {result.trace.offset} to {result.trace.offset + result.trace.length}"
    try:
        with open(path, "rb") as f:
            f.seek(result.trace.offset)
            data = f.read(result.trace.length)
    except OSError as e:
        raise read_error(path, e) from e
    if len(data) < result.trace.length or not data.endswith(b"\n"):
        raise StoreError(f"{where}, is not the trace of episode {result.id}: the file was cut or changed.")
    try:
        calls: list[dict[str, Any]] = [
            msgspec.json.decode(line, type=dict[str, Any]) for line in data.split(b"\n")[:-1]
        ]
    except msgspec.DecodeError as e:
        raise StoreError(f"{where}, is broken ({e}): the file was changed after it was written.") from e
    try:
        return _expand(calls, _read_tool_lists(run_dir))
    except (ValueError, IndexError) as e:
        raise StoreError(f"{where}, names a line of its trace that is not there: the file was changed.") from e


def _expand(calls: list[dict[str, Any]], tool_lists: Mapping[str, Any]) -> list[dict[str, Any]]:
    messages: dict[str, Any] = {}
    conversations: list[list[Any]] = []
    for call in calls:
        messages.update(call.pop("messages", {}))
        conversations.append([])
        request = call.get("request")
        if not isinstance(request, dict):  # the agent's body was no JSON object
            continue
        field = next((f for path, f in _CONVERSATIONS.items() if call.get("api", "").endswith(path)), "")
        if isinstance(request.get(field), list):
            for name in request[field]:
                if isinstance(name, str) and name.startswith("#"):
                    conversations[-1] += conversations[int(name[1:])]
                else:
                    conversations[-1].append(messages.get(name, name) if isinstance(name, str) else name)
            request[field] = conversations[-1]
        if isinstance(request.get("tools"), str):
            request["tools"] = tool_lists.get(request["tools"], request["tools"])
    return calls


def _read_tool_lists(run_dir: Path) -> dict[str, Any]:
    path = run_dir / TOOLS
    lists: dict[str, Any] = {}
    try:
        with open(path, "rb") as f:
            for number, line in enumerate(f, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    one = msgspec.json.decode(line, type=_ToolList)
                except msgspec.DecodeError as e:
                    raise StoreError(f"{path}, line {number} is broken ({e}): restore it from a copy.") from e
                lists[one.tools] = one.schema
    except FileNotFoundError:
        return {}
    except OSError as e:
        raise read_error(path, e) from e
    return lists
