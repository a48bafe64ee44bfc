"""The parts of a request by content hash: messages, and the body as a whole for its seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from agentflow.runner.dialect import CONVERSATION, Dialect

Fields = dict[str, msgspec.Raw]

_items = msgspec.json.Decoder(list[msgspec.Raw])
_canonical = msgspec.json.Encoder(order="deterministic")

# What does not change what the model is asked. The model's name is in here because the role stands for it.
_IRRELEVANT = frozenset(
    {
        "model", "stream", "stream_options", "user", "metadata", "store", "prompt_cache_key", "safety_identifier",
        "previous_response_id",
    }
)  # fmt: skip
# Engines draw these at random; two runs of the same conversation differ in nothing else.
_RANDOM_IDS = ("id", "call_id", "tool_call_id", "tool_use_id", "encrypted_content", "signature")


class Conversation(msgspec.Struct):
    """The messages (or input items) of one request.

    Args:
        field: the request's field that holds them as a list; empty when it has none.
        items: their JSON. A Responses ``input`` given as a plain string counts as one user message.
        hashes: their content hashes.
        tools: content hash of the tool list, empty without one.
    """

    field: str = ""
    items: Sequence[msgspec.Raw] = ()
    hashes: tuple[str, ...] = ()
    tools: str = ""


def content_hash(data: bytes | msgspec.Raw) -> str:
    """128 bits in hex: short enough to repeat, long enough never to meet twice."""
    return blake2b(data, digest_size=16).hexdigest()


def read_conversation(dialect: Dialect, fields: Fields) -> Conversation:
    """Hash the parts of a request that later requests of the episode repeat."""
    tools = content_hash(fields["tools"]) if "tools" in fields else ""
    field = CONVERSATION.get(dialect, "")
    raw = fields.get(field) if field else None
    if raw is None:
        return Conversation(tools=tools)
    try:
        items = _items.decode(raw)
    except msgspec.DecodeError:
        if dialect is not Dialect.RESPONSES:
            return Conversation(tools=tools)
        items, field = [msgspec.Raw(b'{"role":"user","content":' + bytes(raw) + b"}")], ""
    return Conversation(field, items, tuple([content_hash(item) for item in items]), tools)


class Prefixes:
    """Lists of hashes, each kept as what it adds to an earlier one: growing conversations cost their growth."""

    def __init__(self) -> None:
        self._kept: list[list[str]] = []
        self._by_rolling: dict[int, tuple[int, int]] = {}  # rolling hash of a whole list -> (its number, its length)

    def add(self, hashes: Sequence[str]) -> list[str]:
        """Keep the list; returns it with ``"#k"`` for a beginning that is the whole of list k (counted from 0)."""
        rolling, number, length = 0, 0, 0
        for n, item in enumerate(hashes, 1):
            rolling = hash((rolling, item))
            if (known := self._by_rolling.get(rolling)) is not None and known[1] == n:
                number, length = known
        if hashes and length < len(hashes):
            self._by_rolling[rolling] = (len(self._kept), len(hashes))
        short = [f"#{number}", *hashes[length:]] if length else list(hashes)
        self._kept.append(short)
        return short

    def expand(self, number: int) -> list[str]:
        """List ``number`` in full."""
        parts: list[list[str]] = []
        while (kept := self._kept[number]) and kept[0].startswith("#"):
            parts.append(kept[1:])
            number = int(kept[0][1:])
        parts.append(kept)
        return [item for part in reversed(parts) for item in part]


class BodyHasher:
    """Hashes request bodies of one episode such that the same conversation has the same hash in every run.

    Ids that the engine drew are left out, so are worker and time. A message is looked into once, however often the
    conversation repeats it.
    """

    def __init__(self) -> None:
        self._without_ids: dict[str, str] = {}  # content hash -> hash without random ids

    def hash(self, role: str, dialect: Dialect, fields: Fields, conversation: Conversation) -> bytes:
        """32 bytes."""
        digest = blake2b(f"{role}\0{dialect}".encode(), digest_size=32)
        for name in sorted(fields):
            if name in _IRRELEVANT or name == conversation.field:
                continue
            digest.update(f"\0{name}\0".encode())
            digest.update(conversation.tools.encode() if name == "tools" else fields[name])
        known = self._without_ids
        for hash, item in zip(conversation.hashes, conversation.items, strict=True):
            if (plain := known.get(hash)) is None:
                plain = known[hash] = _hash_without_ids(hash, item)
            digest.update(plain.encode())
        return digest.digest()


def _hash_without_ids(hash: str, item: msgspec.Raw) -> str:
    text = bytes(item)
    if b'id"' not in text and b'encrypted_content"' not in text and b'signature"' not in text:
        return hash
    message = msgspec.json.decode(item)
    if not isinstance(message, dict):
        return hash
    plain = _strip(message)
    for part in ("tool_calls", "content"):
        if isinstance(message.get(part), list):
            plain[part] = [_strip(p) if isinstance(p, dict) else p for p in message[part]]
    return content_hash(_canonical.encode(plain))


def _strip(message: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in message.items() if k not in _RANDOM_IDS}


def seed(run_seed: int, item_id: str, sample_index: int, body: bytes, occurrence: int) -> int:
    """A request's seed, 0 .. 2**31 - 1: the largest range that every engine takes."""
    text = f"{run_seed}\0{item_id}\0{sample_index}\0{occurrence}\0".encode()
    return int.from_bytes(blake2b(text + body, digest_size=4).digest(), "big") >> 1
