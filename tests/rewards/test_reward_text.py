"""The rewards that need no algebra."""

from __future__ import annotations

import pytest

from agentflow.rewards import choice, contains, exact_match, gsm8k_reward


def test_gsm8k_compares_the_number_exactly() -> None:
    answer = "She has 1,000 + 234.\n#### 1,234"
    assert gsm8k_reward("So it is $1,234.00.", answer) == 1.0
    assert gsm8k_reward("\\boxed{x = 1234}", answer) == 1.0
    assert gsm8k_reward("So it is 1,235.", answer) == 0.0
    assert gsm8k_reward("I do not know", answer) == 0.0
    with pytest.raises(ValueError, match="is no number"):
        gsm8k_reward("5", "Paris")


def test_exact_match_takes_the_whole_text_or_the_marked_answer() -> None:
    assert exact_match("  Paris. ", "paris") == 1.0
    assert exact_match("I think \\boxed{Paris}", "Paris") == 1.0
    assert exact_match("The answer is Paris.", "Paris") == 1.0
    assert exact_match("paris", "Paris", ignore_case=False) == 0.0
    assert exact_match("Paris, France", "Paris") == 0.0
    assert exact_match("", "") == 0.0


def test_choice_takes_the_marked_letter_or_the_last_one() -> None:
    assert choice("A looks wrong. The answer is (B).", "B") == 1.0
    assert choice("\\boxed{\\text{(b)}}", "B") == 1.0
    assert choice("I would rule out A and take C", "(C)") == 1.0
    assert choice("I would rule out A and take C", "A") == 0.0
    assert choice("no idea", "A") == 0.0
    with pytest.raises(ValueError, match="is no letter"):
        choice("A", "Paris")


def test_contains_wants_whole_words() -> None:
    assert contains("It is Paris, of course", "paris") == 1.0
    assert contains("Parisians", "Paris") == 0.0
    assert contains("<think>Paris?</think> Rome.", "Paris") == 0.0
    assert contains("C++ it is", "c++") == 1.0
