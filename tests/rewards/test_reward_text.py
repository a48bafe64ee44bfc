"""The rewards that need no algebra."""

from __future__ import annotations

from collections.abc import Callable

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


CHOICES = [  # completion, gold, reward
    ("(B)", "B", 1.0),
    ("**B**", "B", 1.0),
    ("B.", "B", 1.0),
    ("Answer: B", "B", 1.0),
    ("The answer is (b)", "B", 1.0),
    ("A or B", "B", 0.0),
    ("A or B", "A", 0.0),
    ("option B because A is wrong", "B", 1.0),
    ("Because", "B", 0.0),
    ("b", "B", 1.0),
    ("The answer is B", "(B)", 1.0),
    ("<think>A</think>B", "B", 1.0),
    ("\\boxed{B}", "B", 1.0),
    ("\\boxed{\\text{B}}", "B", 1.0),
    ("\\boxed{b}", "B", 1.0),
    ("I choose C.", "C", 1.0),
    ("C) 12", "C", 1.0),
    ("Answer: [D]", "D", 1.0),
    ("answer: d", "D", 1.0),
    ("The correct answer is **C**, not A.", "C", 1.0),
    ("The correct answer is **C**, not A.", "A", 0.0),
    ("A is wrong, B is wrong, so C.", "C", 1.0),
    ("It's a dog", "A", 0.0),
    ("A dog barks", "A", 0.0),
    ("I am sure", "I", 0.0),
    ("", "A", 0.0),
    (None, "A", 0.0),
    ("The answer is B. A and C are wrong.", "B", 1.0),
    ("Option D", "D", 1.0),
    ("Options A and B are wrong. So it must be C", "C", 1.0),
    ("**Answer: (C) Paris**", "C", 1.0),
    ("Final answer: E", "E", 1.0),
    ("#### B", "B", 1.0),
    ("<answer>B</answer>", "B", 1.0),
    ("The answer is $\\mathbf{B}$.", "B", 1.0),
    ("答案：B", "B", 1.0),
    ("A\n\nB is wrong because ...", "A", 1.0),
    ("Answer:\nB", "B", 1.0),
    ("B: Paris", "B", 1.0),
    ("None of the above", "A", 0.0),
    ("The best answer is B: it holds.", "B", 1.0),
    ('{"answer": "B"}', "B", 1.0),
    ("The answer is (A) or (B)", "A", 0.0),
    ("A, B", "A", 0.0),
    ("Not A", "A", 0.0),
    ("My choice: b)", "B", 1.0),
    ("The answer is A because B is false.", "A", 1.0),
    ("The answer is A because B is false.", "B", 0.0),
    ("Correct option: B", "B", 1.0),
    ("(b) is correct", "B", 1.0),
    ("I'd go with B", "B", 1.0),
    ("Vitamin C is found in oranges. The answer is (A).", "A", 1.0),
    ("Vitamin C", "C", 1.0),
]

CONTAINED = [  # completion, gold, reward
    ("It is Paris.", "Paris", 1.0),
    ("it is paris", "PARIS", 1.0),
    ("Parisian", "Paris", 0.0),
    ("New\nYork City", "New York", 1.0),
    ("The cost is $5.50", "$5.50", 1.0),
    ("The cost is 15.50", "5.50", 0.0),
    ("x = 3.5", "3", 0.0),
    ("3", "3", 1.0),
    ("33", "3", 0.0),
    ("-3", "3", 0.0),
    ("", "", 0.0),
    ("abc", "", 0.0),
    ("café", "café", 1.0),
    ("café", "café", 1.0),
    ("It’s Paris", "it's paris", 1.0),
    ("New\xa0York", "New York", 1.0),
    ("not Paris", "Paris", 1.0),
    ("C++", "C++", 1.0),
    ("U.S.A. is", "U.S.A.", 1.0),
    ("**Paris**", "Paris", 1.0),
    ("_Paris_", "Paris", 1.0),
    ("1,000 people", "1000", 0.0),
    ("5%", "5%", 1.0),
]

EXACT = [  # completion, gold, reward
    ("Paris", "paris", 1.0),
    ("**Paris**", "Paris", 1.0),
    ("Paris!", "Paris", 0.0),
    ('"Paris"', "Paris", 1.0),
    ("The answer is **Paris**.", "Paris", 1.0),
    ("The answer is New York City.", "New York City", 1.0),
    ("The answer is the Eiffel Tower in Paris.", "Paris", 0.0),
    ("<answer>New York City</answer>", "New York City", 1.0),
    ("  Paris\n", "Paris", 1.0),
    ("\\boxed{\\text{Paris}}", "Paris", 1.0),
    ("Answer: 42", "42", 1.0),
    ("42.0", "42", 0.0),
    ("<think>Rome</think>Paris", "Paris", 1.0),
    (None, "x", 0.0),
    ("Paris.", "Paris.", 1.0),
]

NUMBERS = [  # completion, gold, reward
    ("#### 72", "#### 72", 1.0),
    ("The answer is 72", "72", 1.0),
    ("72.0", "72", 1.0),
    ("$72", "72", 1.0),
    ("72 dollars", "72", 1.0),
    ("\\boxed{72}", "72", 1.0),
    ("1,000", "1000", 1.0),
    ("So 1 000 in total", "1000", 1.0),
    ("-5", "-5", 1.0),
    ("5", "-5", 0.0),
    ("0.5", "1/2", 1.0),
    ("50%", "0.5", 1.0),
    ("50%", "50", 1.0),
    ("7.2", "72", 0.0),
    ("So he has 72.", "72", 1.0),
    ("He has 72 of 100.", "72", 0.0),
    ("x = 72", "72", 1.0),
    ("70 + 2 = 72", "72", 1.0),
    ("seventy-two", "72", 1.0),
    ("", "72", 0.0),
    (None, "72", 0.0),
    ("72 apples and 3 pears", "72", 0.0),
    ("2 hours 30 minutes", "2", 0.0),
    ("2 hours 30 minutes", "30", 0.0),
    ("1e3", "1000", 1.0),
    ("1.5 million", "1500000", 1.0),
    ("The total is $1,250.00.", "1250", 1.0),
    ("\\boxed{\\$1,250}", "1250", 1.0),
    ("\\boxed{1250 \\text{ dollars}}", "1250", 1.0),
    ("72 or 73", "73", 0.0),
    ("72 or 73", "72", 0.0),
    ("between 70 and 72", "72", 1.0),
    ("**72**", "72", 1.0),
    ("It takes 3 1/2 hours", "3.5", 1.0),
    ("#### 72 apples", "72", 1.0),
    ("The answer is 72!", "72", 1.0),
    ("\\boxed{}", "72", 0.0),
]


@pytest.mark.parametrize(("completion", "gold", "reward"), CHOICES)
def test_choice_case_by_case(completion: str | None, gold: str, reward: float) -> None:
    assert choice(completion, gold) == reward


@pytest.mark.parametrize(("completion", "gold", "reward"), CONTAINED)
def test_contains_case_by_case(completion: str | None, gold: str, reward: float) -> None:
    assert contains(completion, gold) == reward


@pytest.mark.parametrize(("completion", "gold", "reward"), EXACT)
def test_exact_match_case_by_case(completion: str | None, gold: str, reward: float) -> None:
    assert exact_match(completion, gold) == reward


@pytest.mark.parametrize(("completion", "gold", "reward"), NUMBERS)
def test_gsm8k_reward_case_by_case(completion: str | None, gold: str, reward: float) -> None:
    assert gsm8k_reward(completion, gold) == reward


@pytest.mark.parametrize(
    "piece",
    [
        *("answer is ", "<answer>", "</s>", "1,", "$1$ ", "A ", "A, ", "not ", "1 hour ", "is true ", "\\boxed{", "x^"),
        *("answer " + "*" * 2_000, "#### " + " " * 2_000 + "\n", "\n# ", "\n**"),
    ],
)
@pytest.mark.parametrize("ending", ["", "5", " The answer is B."])
@pytest.mark.timeout(90)  # a pattern that backtracks took three minutes over 200,000 characters
def test_long_and_monotonous_completions_cost_nothing(piece: str, ending: str) -> None:
    completion = piece * 20_000 + ending
    choice(completion, "A")
    exact_match(completion, "Paris")
    contains(completion, "Paris")
    gsm8k_reward(completion, "5")


@pytest.mark.parametrize("space", [" ", "\\,", "\\quad ", "\u2003"])
@pytest.mark.timeout(90)  # runs of spaces behind a caret or a bracket were shared out in every way
def test_a_box_of_nothing_but_space_costs_nothing(space: str) -> None:
    for opening in ("A^", "5\\left"):
        completion = f"\\boxed{{{opening}{space * 200_000} x}}"
        choice(completion, "A")
        gsm8k_reward(completion, "5")


@pytest.mark.parametrize("reward", [gsm8k_reward, exact_match, choice, contains])
def test_a_gold_answer_that_is_null_is_an_error(reward: Callable[[str, object], float]) -> None:
    with pytest.raises(ValueError, match="the gold answer"):
        reward("None", None)
