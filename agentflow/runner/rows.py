"""The rows of a data set that is a function of the user's: ``module:function`` or ``file.py:function``."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from itertools import islice
from typing import Any

import msgspec

from agentflow.agents.failures import said
from agentflow.agents.importing import attribute, find
from agentflow.agents.sources import where
from agentflow.channel.messages import MAX_CHUNK_BYTES, MAX_ROW_BYTES
from agentflow.errors import DataError, UsageError
from agentflow.runner.main_thread import MainThread

ROWS_A_STEP = 256  # between two looks at the event loop


async def stream_rows(
    path: str, kwargs: Mapping[str, Any], main_thread: MainThread, send: Callable[[bytes], Awaitable[None]]
) -> None:
    """Call the function and send its rows as JSON lines, in chunks of :data:`MAX_CHUNK_BYTES` (or one larger row).

    The function may return any iterable of mappings, be a generator or an async generator, or be a coroutine function
    that returns one of these. Dates, times, UUIDs, decimals, enums and bytes are written as msgspec writes them (ISO
    8601, text, base64), numpy scalars and arrays as numbers and lists, NaN and infinity as null.

    Raises:
        DataError: one sentence.
    """
    rows = await main_thread.call(lambda: _call(path, kwargs))
    chunk = bytearray()
    index = 0
    async for row in _iterate(rows, path, main_thread):
        line = encode_row(row, index, path)
        index += 1
        if chunk and len(chunk) + len(line) > MAX_CHUNK_BYTES:
            await send(bytes(chunk))
            chunk.clear()
        chunk += line
    if chunk:
        await send(bytes(chunk))


def encode_row(row: object, index: int, path: str) -> bytes:
    """One JSON line; raises DataError that names the row, and the column where it can."""
    if not isinstance(row, Mapping):
        hint = "; for a DataFrame return frame.to_dict('records')" if index == 0 and isinstance(row, str) else ""
        raise DataError(f"Row {index} of {path} is a {type(row).__name__}; rows have to be mappings{hint}.")
    try:
        line = _encoder.encode(dict(row)) + b"\n"
    except Exception as e:
        column = next((f", column '{name}'" for name, value in row.items() if not _encodes(value)), "")
        raise DataError(f"Row {index} of {path}{column} cannot be written as JSON: {e}.") from e
    if len(line) > MAX_ROW_BYTES:
        raise DataError(f"Row {index} of {path} has {len(line)} bytes as JSON; a row may have {MAX_ROW_BYTES}.")
    return line


def _call(path: str, kwargs: Mapping[str, Any]) -> object:
    found = find(path)
    function = attribute(found, "function") if found.name else None
    if not callable(function):
        raise DataError(f"{path} is no function; write it as module:function or file.py:function.")
    try:
        inspect.signature(function).bind(**kwargs)
    except TypeError as e:
        raise DataError(f"{path} cannot be called with ({', '.join(kwargs)}): {e}.") from e
    except ValueError:  # written in C: only calling it tells
        pass
    try:
        return function(**kwargs)
    except UsageError:
        raise
    except BaseException as e:
        raise _raised(path, e) from e


async def _iterate(rows: object, path: str, main_thread: MainThread) -> AsyncIterator[object]:
    try:
        if inspect.isawaitable(rows):
            rows = await rows
        if isinstance(rows, AsyncIterator) or hasattr(rows, "__aiter__"):
            async for row in rows:
                yield row
            return
    except UsageError:
        raise
    except Exception as e:
        raise _raised(path, e) from e
    if isinstance(rows, str | bytes | Mapping) or not hasattr(rows, "__iter__"):
        raise DataError(f"{path} returned a {type(rows).__name__}; it has to return rows: an iterable of mappings.")
    iterator = await main_thread.call(lambda: _guarded(path, lambda: iter(rows)))
    while step := await main_thread.call(lambda: _guarded(path, lambda: list(islice(iterator, ROWS_A_STEP)))):
        for row in step:
            yield row


def _guarded(path: str, function: Callable[[], Any]) -> Any:
    try:
        return function()
    except BaseException as e:
        raise _raised(path, e) from e


def _raised(path: str, error: BaseException) -> DataError:
    at = where(error)
    return DataError(f"{path} raised{f' at {at}' if at else ''}: {said(error)}.")


def _encode_numpy(value: object) -> object:
    """numpy, without importing it: scalars and arrays both have ``tolist``."""
    to_list = getattr(value, "tolist", None)
    if callable(to_list):
        return to_list()
    raise NotImplementedError(f"a {type(value).__name__} has no JSON form")


def _encodes(value: object) -> bool:
    try:
        _encoder.encode(value)
    except Exception:  # noqa: BLE001 - the same broad net as around the row
        return False
    return True


_encoder = msgspec.json.Encoder(enc_hook=_encode_numpy)
