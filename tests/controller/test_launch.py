"""What runners are told of the configuration."""

from __future__ import annotations

import pytest

from agentflow.config import load_config
from agentflow.controller.launch import runner_settings


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        (["model=/models/mine.gguf"], ("/models/mine.gguf", "mine.gguf", "mine")),
        (["model=Qwen/Qwen2.5-7B"], ("Qwen/Qwen2.5-7B", "Qwen2.5-7B")),
        (["base_url=http://127.0.0.1:9"], ()),
    ],
)
def test_runners_know_the_names_by_which_the_user_calls_the_model(overrides: list[str], names: tuple[str, ...]) -> None:
    assert runner_settings(load_config(None, overrides)[0]).model_names == names
