"""Where in a completion the answer is."""

from __future__ import annotations

import pytest

from agentflow.rewards.extraction import extract


@pytest.mark.parametrize(
    ("completion", "text", "rule"),
    [
        ("\\boxed{1} no, \\boxed{\\frac{1}{2}}", "\\frac{1}{2}", "box"),
        ("\\boxed{x = \\boxed{3}}", "x = \\boxed{3}", "box"),
        ("\\boxed{2} and $\\boxed{3}$", "2, 3", "box"),
        ("\\boxed{2} and then, much later, $\\boxed{3}$", "3", "box"),
        ("within \\boxed{}. So \\boxed{5}, that is \\boxed{", "5", "box"),
        ("\\fbox{7}", "7", "box"),
        ("work\n#### 1,234\n", "1,234", "####"),
        ("The answer is $x^2$, as $y=1$.", "x^2", "phrase"),
        ("The answers are $1$ and $2$.", "1, 2", "phrase"),
        ("**Final Answer**\n\n$$\\frac12$$\n", "\\frac12", "phrase"),
        ("Answer: 12 cm. It is not 13.", "12 cm", "phrase"),
        ("The answer is 42 because geometry proves it", "42", "phrase"),
        ("The answer is that there are 6 birds on 2 trees.", "2", "phrase"),
        ("The answer is 5? No: the answer is 6.", "6", "phrase"),
        ("1 1/4", "1 1/4", "formula"),
        ("3x+4y+14=0", "3x+4y+14=0", "formula"),
        ("We find $a=1$, so there are 5 of them", "5", "number"),
        ("There are 5, as $a=1$ shows", "a=1", "formula"),
        ("She makes $18 every day, at $2 per egg.", "$2", "number"),
        ("It grows by 1,250.50 a year", "1,250.50", "number"),
        ("It falls to −5", "−5", "number"),
        ("east", "east", "text"),
        ("<think>\\boxed{1}</think>\nSo \\boxed{2}", "2", "box"),
        ("<think>So \\boxed{2}</think>\n", "2", "box"),
    ],
)
def test_the_answer_is_found(completion: str, text: str, rule: str) -> None:
    found = extract(completion)
    assert found is not None
    assert (found.text.strip(), found.rule) == (text, rule)


def test_a_text_without_an_answer_has_none() -> None:
    assert extract("") is None
    assert extract("I cannot say. " * 50) is None
