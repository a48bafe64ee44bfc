"""The metadata at the head of a GGUF file, as https://github.com/ggml-org/ggml/blob/master/docs/gguf.md lays it out."""

from __future__ import annotations

import struct
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO

MAGIC = b"GGUF"
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9

Value = str | int | float | bool


class GgufError(Exception):
    """Not a GGUF file that we can read."""


def is_gguf(path: Path) -> bool:
    """Whether the file begins as one."""
    with path.open("rb") as f:
        return f.read(4) == MAGIC


def read_metadata(path: Path, wanted: Collection[str]) -> dict[str, Value]:
    """The values of those keys that the file has. A wanted key beginning with ``*`` stands for any architecture:
    ``*.pooling_type`` finds ``bert.pooling_type``. Arrays are skipped.

    Raises:
        GgufError: it is no GGUF file of version 2 or 3, or ends too early.
    """
    found: dict[str, Value] = {}
    try:
        with path.open("rb") as f:
            if f.read(4) != MAGIC or _number(f, "I") not in (2, 3):
                raise GgufError(f"{path} is not a GGUF file of version 2 or 3.")
            _number(f, "Q")  # number of tensors
            for _ in range(int(_number(f, "Q"))):
                key = _string(f)
                value = _value(f, int(_number(f, "I")))
                generic = "*." + key.split(".", 1)[-1]
                for name in (key, generic):
                    if name in wanted and value is not None:
                        found[name] = value
                if len(found) == len(wanted):
                    break
    except (struct.error, KeyError, UnicodeDecodeError) as e:
        raise GgufError(f"The head of {path} is broken or cut off.") from e
    return found


def _number(f: BinaryIO, code: str) -> int | float | bool:
    size = struct.calcsize("<" + code)
    (number,) = struct.unpack("<" + code, f.read(size))
    value: int | float | bool = number
    return value


def _string(f: BinaryIO) -> str:
    return f.read(int(_number(f, "Q"))).decode()


def _value(f: BinaryIO, kind: int) -> Value | None:
    if kind == _STRING:
        return _string(f)
    if kind != _ARRAY:
        return _number(f, _NUMBERS[kind])
    of, length = int(_number(f, "I")), int(_number(f, "Q"))
    if of in _NUMBERS:
        f.seek(length * struct.calcsize("<" + _NUMBERS[of]), 1)
    else:
        for _ in range(length):
            _value(f, of) if of == _ARRAY else f.seek(int(_number(f, "Q")), 1)
    return None
