"""A recorded conversation comes back as the agent sent it, whatever shorthand the trace uses."""

from __future__ import annotations

import msgspec
import pytest

from agentflow.episode import Call, Episode
from agentflow.errors import StoreError
from agentflow.store import Store, read_calls
from agentflow.store.traces import _expand


def test_lists_of_plain_strings_are_the_agents_own():
    line = {"api": "/v1/embeddings", "request": {"input": ["#0", "text"]}, "messages": {"text": "never"}}
    assert _expand([line], {})[0]["request"] == {"input": ["#0", "text"]}


def test_a_body_that_was_no_json_stays_as_it_is():
    assert _expand([{"api": "/v1/chat/completions", "request": "{not json"}], {})[0]["request"] == "{not json"


@pytest.mark.asyncio
async def test_a_trace_that_names_a_missing_line_is_one_sentence(tmp_path, manifest, result):
    async with Store.create(tmp_path / "run", manifest) as store:
        line = b'{"api":"/v1/chat/completions","request":{"messages":["#4"]}}\n'
        a = await store.append(result("a"), [line])
    with pytest.raises(StoreError, match=r"traces\.jsonl, bytes 0 to"):
        read_calls(tmp_path / "run", a)


@pytest.mark.asyncio
async def test_a_trace_that_was_cut_off_later_is_one_sentence(tmp_path, manifest, result):
    async with Store.create(tmp_path / "run", manifest) as store:
        a = await store.append(result("a"), [b'{"api":"x","request":{}}\n'])
    (tmp_path / "run" / "traces.jsonl").write_bytes(b'{"api"')
    with pytest.raises(StoreError, match="is not the trace of episode a/0"):
        read_calls(tmp_path / "run", a)


@pytest.mark.asyncio
async def test_what_the_recorder_writes_is_read_back_whole(tmp_path, manifest, result):
    recorder = pytest.importorskip("agentflow.runner.recorder", reason="NOT CHECKED: there is no recorder here")
    from agentflow.runner.conversation import read_conversation
    from agentflow.runner.dialect import Dialect

    a = result("a")
    records = recorder.Recorder(Episode("a", 0), redact=lambda line: line)
    tools = [{"type": "function", "function": {"name": "add"}}]
    conversation = [{"role": "system", "content": "You add."}]
    sent = []
    async with Store.create(tmp_path / "run", manifest) as store:
        for turn in range(5):
            conversation = [*conversation, {"role": "user", "content": f"turn {turn}"}]
            body = {"model": "default", "messages": conversation, "tools": tools}
            sent.append(body)
            fields = {k: msgspec.Raw(msgspec.json.encode(v)) for k, v in body.items()}
            parts = read_conversation(Dialect.CHAT, fields)
            store.add_schema(parts.tools, bytes(fields["tools"]))
            call = Call(f"c{turn}", "/v1/chat/completions", float(turn), 0.1, 200)
            records.end(records.begin(), call, fields, parts, b'{"choices": []}')
        a = await store.append(a, list(records.trace()))
    assert [line["request"] for line in read_calls(tmp_path / "run", a)] == sent
