"""A reward function named in a configuration, whatever its protocol."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentflow.errors import ConfigError
from agentflow.rewards import GraderError, load_reward

FUNCTIONS = """
import functools, threading, time
from agentflow.rewards import AsyncRewardWrapper
from shared_by_my_rewards import HALF

def areal(prompt, completions, prompt_ids, completion_ids, answer, **kwargs):
    assert prompt == [{"role": "user", "content": "?"}] and prompt_ids is None and completion_ids == [1, 2]
    return HALF if completions == answer and kwargs == {"level": 3} else 0.0

def ours(completion, **row):
    return float(completion == row["answer"] and row["level"] == 3)

def named(completion, answer):
    return completion == answer

async def awaited(completion, answer):
    return 0.25

def renamed(response, answer, **row):
    return float(response == answer and row["completions"] == "likewise")

class Judge:
    async def __call__(self, completion, answer):
        return 0.75

judge = Judge()

def blocking(prompt, completions, prompt_ids, completion_ids, answer, **kwargs):
    return float(completions == answer and prompt == "?")

def long_one(completion, seconds):
    time.sleep(seconds)

wrapped = AsyncRewardWrapper(blocking, timeout=30)
impatient = AsyncRewardWrapper(long_one, timeout=0.2)

LOCK = threading.Lock()

def with_lock(completion, answer):
    with LOCK:
        return float(completion == answer)

@functools.cache
def normalised(text):
    return text.strip()

def with_cache(completion, answer):
    return float(normalised(completion) == normalised(answer))

def broken(completion, **row):
    raise RuntimeError("no judge")

def in_words(completion):
    return "0.5"

def nothing_to_judge():
    return 1.0

def by_name_only(*, completion):
    return 1.0

def nothing(completion):
    return None

def several(completion):
    return [0.5, 0.5]

def endless(completion):
    return 10**400

not_callable = 3
"""
ROW = {"answer": "x", "level": 3, "prompt": "a column of that name", "completions": "likewise"}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_rewards", raising=False)
    (tmp_path / "shared_by_my_rewards.py").write_text("HALF = 0.5\n")
    (tmp_path / "my_rewards.py").write_text(FUNCTIONS)
    return tmp_path / "my_rewards.py"


@pytest.mark.asyncio
async def test_areals_protocol_gets_prompt_ids_and_the_row(file: Path) -> None:
    reward = load_reward(f"{file}:areal")
    prompt = [{"role": "user", "content": "?"}]
    assert await reward("x", {"answer": "x", "level": 3}, prompt=prompt, completion_ids=[1, 2]) == 0.5


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("name", "expected"),
    [("ours", 1.0), ("named", 1.0), ("awaited", 0.25), ("judge", 0.75), ("with_lock", 1.0), ("with_cache", 1.0)],
)
@pytest.mark.parametrize("form", ["{file}:{name}", "my_rewards:{name}", "my_rewards.{name}"])
async def test_our_protocol_gets_the_completion_and_the_columns(
    file: Path, name: str, expected: float, form: str
) -> None:
    assert await load_reward(form.format(file=file, name=name))("x", ROW) == expected


@pytest.mark.asyncio
async def test_a_column_may_be_called_as_the_parameter_that_gets_the_completion(file: Path) -> None:
    row = {**ROW, "response": "a column of that name"}
    assert await load_reward(f"{file}:renamed")("x", row) == 1.0


@pytest.mark.asyncio
async def test_a_wrapped_function_keeps_its_protocol_and_its_limits(file: Path) -> None:
    assert await load_reward(f"{file}:wrapped")("x", ROW, prompt="?") == 1.0
    with pytest.raises(GraderError, match=r"long_one gave no reward: it did not finish within 0\.2 s"):
        await load_reward(f"{file}:impatient")("x", {"seconds": 600})


@pytest.mark.asyncio
async def test_a_function_that_raises_gives_no_silent_zero(file: Path) -> None:
    with pytest.raises(GraderError, match="broken gave no reward: it raised RuntimeError: no judge"):
        await load_reward(f"{file}:broken")("x", ROW)


@pytest.mark.asyncio
async def test_a_bare_name_is_one_of_ours() -> None:
    assert await load_reward("exact_match")("Paris", {"answer": "Paris", "ignored": 1}) == 1.0
    assert await load_reward("agentflow.rewards.contains")("in Paris", {"answer": "Paris"}) == 1.0


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("my_rewards:our", "has no function 'our'; did you mean my_rewards:ours?"),
        ("my_rewards:not_callable", "has no function 'not_callable'"),
        ("nowhere.at.all:fn", "cannot be imported: No module named 'nowhere'"),
        ("gone.py:fn", "does not exist"),
        ("my_rewards:", "names no function"),
        ("my_rewards.py", "names no function: write pkg.mod:function or file.py:function"),
        ("my_rewards:nothing_to_judge", "cannot be used as a reward function: too many positional arguments"),
        ("my_rewards:by_name_only", "cannot be used as a reward function: too many positional arguments"),
    ],
)
def test_what_cannot_be_loaded_is_said_in_a_sentence(file: Path, path: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_reward(path)
    assert said in str(caught.value)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("name", "kind"), [("nothing", "NoneType"), ("several", "list"), ("endless", "int"), ("in_words", "str")]
)
async def test_what_is_no_number_is_an_error_that_names_it(file: Path, name: str, kind: str) -> None:
    with pytest.raises(GraderError, match=rf"{name} returned .*\({kind}\), not a number.*'hello'"):
        await load_reward(f"{file}:{name}")("hello", ROW)
