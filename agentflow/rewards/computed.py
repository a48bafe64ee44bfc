"""A number beside an expression, or two expressions: what has to be computed to be compared."""

from __future__ import annotations

import re

from agentflow.rewards import symbolic
from agentflow.rewards.magnitude import TooLargeError
from agentflow.rewards.quantity import Quantity, quantity


def same_value(g: str, p: str) -> bool:
    """Whether two normalised answers of one value each mean the same.

    Raises:
        TooLargeError: the gold answer ``g`` must not be computed.
    """
    number, given = quantity(g), quantity(p)
    if number is not None or given is not None:
        try:
            decided = _stands_for(number, p) if number is not None else _stands_for(given, g)
        except TooLargeError:
            if number is None:
                raise
            return False  # a number that has to be written with so many digits is not the gold
        if decided is not None:
            return decided or _in_degrees(number, p) or _in_degrees(given, g)
    return symbolic.equal(g, p)


def _in_degrees(number: Quantity | None, expression: str) -> bool:
    """45° is pi/4; a bare 45 is not."""
    if number is None or number.unit != "°" or re.search(r"\\(?:pi|arc)", expression) is None:
        return False
    value = number.value
    return symbolic.equal(rf"\frac{{{value.numerator}\pi}}{{{180 * value.denominator}}}", expression)


def _stands_for(number: Quantity | None, expression: str) -> bool | None:
    return None if number is None else symbolic.stands_for(number, expression)
