"""``previous_response_id``: the conversation behind a response's id, from what this episode has seen."""

from __future__ import annotations

import threading

import msgspec

from agentflow.runner.conversation import Conversation, Fields, Prefixes, content_hash, read_conversation
from agentflow.runner.dialect import Dialect


class UnknownResponseError(Exception):
    """No response of that id was given in this episode."""


class _Reply(msgspec.Struct):
    id: str = ""
    output: list[msgspec.Raw] = []


_reply = msgspec.json.Decoder(_Reply)


class ResponseChain:
    """Every response of an episode with the input that led to it; a text that recurs is held once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lists = Prefixes()
        self._texts: dict[str, bytes] = {}
        self._number_of: dict[str, int] = {}  # response id -> its list of input and output items

    def remember(self, conversation: Conversation, response: bytes) -> None:
        """``response`` answered ``conversation``; anything that is no response object is passed over."""
        try:
            reply = _reply.decode(response)
        except msgspec.DecodeError:
            return
        if not reply.id:
            return
        output = [content_hash(item) for item in reply.output]
        with self._lock:
            items = [
                *zip(conversation.hashes, conversation.items, strict=True),
                *zip(output, reply.output, strict=True),
            ]
            for hash, item in items:
                if hash not in self._texts:
                    self._texts[hash] = bytes(item)  # a copy: the item itself would keep its whole request alive
            self._number_of[reply.id] = len(self._number_of)
            self._lists.add((*conversation.hashes, *output))

    def expand(self, fields: Fields) -> Fields:
        """``fields`` with ``previous_response_id`` replaced by what it stands for.

        Raises:
            UnknownResponseError: the id is not of this episode.
        """
        raw = fields.get("previous_response_id")
        if raw is None or bytes(raw) == b"null":
            return fields
        id = msgspec.json.decode(raw)
        with self._lock:
            number = self._number_of.get(id) if isinstance(id, str) else None
            if number is None:
                raise UnknownResponseError(f"previous_response_id {id!r} is not of a response given in this episode")
            before = [msgspec.Raw(self._texts[hash]) for hash in self._lists.expand(number)]
        new = read_conversation(Dialect.RESPONSES, fields).items
        expanded = {k: v for k, v in fields.items() if k != "previous_response_id"}
        expanded["input"] = msgspec.Raw(msgspec.json.encode([*before, *new]))
        return expanded
