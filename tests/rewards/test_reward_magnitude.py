"""The static guard turns away what would never end, and nothing else."""

from __future__ import annotations

import pytest

from agentflow.rewards.magnitude import TooLargeError, check_size


@pytest.mark.parametrize(
    "expression",
    [
        "9^9^9^9",
        "9^{9^{9^9}}",
        "9**9**9**9",
        "(10^8)!",
        "100000000!",
        "(9!)!",
        "3!!!!",
        "\\frac{5^{(5^{(5^{(5^5)})}-4)}-5}{16}",
        "10^{(5^{5^{5^{5^{5}}}\\cdot\\log_{10}(5)}-4)}",
        "\\binom{1000000}{500000}",
        "\\exp(\\exp(100))",
        "2^{-10^{9}}",
        "(1+x)^{10^{10}}",
        "(" * 100 + "1" + ")" * 100,
        "1+" * 2000 + "1",
    ],
)
def test_a_giant_is_turned_away(expression: str) -> None:
    with pytest.raises(TooLargeError):
        check_size(expression)


@pytest.mark.parametrize(
    "expression",
    ["\\frac{1}{2004!}", "10^{100}+1", "2^{1000}", "e^{i\\pi}", "x^{10}+y^{20}", "1.6\\times10^{-19}", "2^{2^{10}}",
     "100!", "\\binom{100}{50}", "(x+y)^{100}", "\\sum_{k=1}^{1000} k^2", "", "^^", "!!", "}{", "1,000,000,000"],
)  # fmt: skip
def test_what_can_be_computed_passes(expression: str) -> None:
    check_size(expression)
