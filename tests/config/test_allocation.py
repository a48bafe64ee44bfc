"""The grammar of rollout.backend."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.allocation import ENGINES, Allocation, parse_backend
from agentflow.errors import EXIT_USAGE, AllocationError


@pytest.mark.parametrize(
    ("text", "engine", "replicas", "tensor", "pipeline"),
    [
        ("sglang:d12p1t1", "sglang", 12, 1, 1),
        ("vllm:d2t4", "vllm", 2, 4, 1),
        ("llamacpp:d1", "llamacpp", 1, 1, 1),
        ("sglang:d4t2p1", "sglang", 4, 2, 1),
        ("sglang:t2p3d4", "sglang", 4, 2, 3),
        ("vllm:p2", "vllm", 1, 1, 2),
        ("vllm:t8", "vllm", 1, 8, 1),
        ("sglang:d100t16p10", "sglang", 100, 16, 10),
    ],
)
def test_a_backend_string_says_engine_replicas_and_gpus(
    text: str, engine: str, replicas: int, tensor: int, pipeline: int
) -> None:
    allocation = parse_backend(text)
    assert allocation == Allocation(engine, replicas, tensor, pipeline)
    assert allocation.gpus_per_replica == tensor * pipeline
    assert allocation.gpus == replicas * tensor * pipeline


@pytest.mark.parametrize(
    ("text", "character", "words"),
    [
        ("", 1, "empty"),
        ("   ", 1, "empty"),
        ("sglang", 7, "'sglang:d1'"),
        ("sglang:", 8, "'sglang:d1'"),
        ("sglang:d", 9, "a number must follow 'd'"),
        ("sglang:dt2", 9, "a number must follow 'd'"),
        ("sglang:d-1", 9, "a number must follow 'd'"),
        ("sglang:d4d2", 10, "'d' appears a second time"),
        ("sglang:t1d4t1", 12, "'t' appears a second time"),
        ("sglang:d0", 9, "must be 1, 2, 3"),
        ("sglang:d04", 9, "must be 1, 2, 3"),
        ("sglang:d4c2", 10, "context parallelism"),
        ("vllm:d4e2", 8, "expert parallelism"),
        ("sglang:4", 8, "'4' is no dimension"),
        ("sglang:D4", 8, "'D' is no dimension"),
        ("sglang:d4,t2", 10, "',' is no dimension"),
        ("sglang:d1.5", 10, "'.' is no dimension"),
        ("sglang:d４", 9, "a number must follow 'd'"),
        ("sglang:d4:t2", 10, "':' is no dimension"),
        ("sglang.d4", 7, "'sglang:d4'"),
        ("SGLang:d4", 1, "small letters: 'sglang'"),
        ("sglang :d4", 7, "space"),
        ("sglang:d4 ", 10, "space"),
        ("fsdp:d4", 1, "engine of training"),
        ("megatron:(attn:d1|ffn:e4)", 18, "joins several"),
        ("sglang:d4+fsdp:d4", 10, "joins several"),
        ("d4t2", 1, "is no engine"),
        ("tgi:d4", 1, "(at character 1); the engine is one of sglang | vllm | llamacpp"),
        ("llamacp:d2", 1, "did you mean 'llamacpp'? The engine is one of sglang | vllm | llamacpp"),
        (":d4", 1, "is no engine"),
    ],
)
def test_a_broken_string_is_refused_with_the_string_the_place_and_the_rule(
    text: str, character: int, words: str
) -> None:
    with pytest.raises(AllocationError) as error:
        parse_backend(text)
    message = str(error.value)
    assert repr(text) in message
    assert f"at character {character})" in message
    assert words in message
    assert "\n" not in message
    assert error.value.exit_code == EXIT_USAGE


@given(
    st.sampled_from(ENGINES),
    st.dictionaries(st.sampled_from("dtp"), st.integers(1, 10**6), min_size=1),
    st.randoms(use_true_random=False),
)
def test_dimensions_come_in_any_order(engine: str, sizes: dict[str, int], random) -> None:
    names = list(sizes)
    random.shuffle(names)
    allocation = parse_backend(f"{engine}:{''.join(f'{n}{sizes[n]}' for n in names)}")
    assert allocation == Allocation(engine, *(sizes.get(n, 1) for n in "dtp"))
    assert parse_backend(str(allocation)) == allocation


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_backend(text)
    except AllocationError:
        return
    assert text.split(":")[0] in ENGINES
