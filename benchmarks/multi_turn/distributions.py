"""Conversations drawn from the JSON files of vLLM's ``benchmarks/multi_turn`` (``generate_multi_turn.json``).

The format and what its numbers mean are vLLM's, the draws are ours: from Python's generator, a stream of its own for
each conversation, so that more conversations leave the first ones as they were. ``num_turns`` counts messages of both
sides and is rounded up to pairs. The common prefix counts towards the first message's ``num_tokens``, the
conversation's own prefix does not.
"""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

import msgspec

from agentflow.errors import UsageError
from benchmarks.multi_turn.conversations import Turn, numbered

LEAST_TOKENS = 10  # of a message beside the common prefix: conversations have to differ
# A heavy tail without "max" would fill the memory.
MOST_TOKENS = 2_000_000  # of a message
MOST_MESSAGES = 10_000  # of a conversation

_LARGEST_LOG = 40.0  # a float of integers ends at 2^53; MOST_TOKENS is far below

Positive = Annotated[float, msgspec.Meta(gt=0)]


class Constant(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="distribution", tag="constant"):
    """Always ``value``."""

    value: Annotated[float, msgspec.Meta(ge=0)]

    def draw(self, random: Random) -> float:
        """One value."""
        return self.value


class Uniform(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="distribution", tag="uniform"):
    """From ``min`` to ``max``, both included; over the integers where both are."""

    min: Positive
    max: Positive

    def __post_init__(self) -> None:
        if self.min > self.max:
            raise ValueError(f"min {self.min:g} is more than max {self.max:g}")

    def draw(self, random: Random) -> float:
        """One value."""
        if self.min == int(self.min) and self.max == int(self.max):
            return random.randint(int(self.min), int(self.max))
        return random.uniform(self.min, self.max)


class Lognormal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="distribution", tag="lognormal"):
    """By ``average`` and ``median_ratio`` (median by average), or by ``mean`` and ``sigma`` of the logarithm."""

    average: Positive | None = None
    median_ratio: Annotated[float, msgspec.Meta(gt=0, lt=1)] | None = None
    mean: float | None = None
    sigma: Annotated[float, msgspec.Meta(ge=0)] | None = None
    max: Positive | None = None

    def __post_init__(self) -> None:
        by_average = self.average is not None and self.mean is None and self.sigma is None
        by_logarithm = self.average is None and self.mean is not None and self.sigma is not None
        if not (by_average or by_logarithm):
            raise ValueError("a lognormal distribution takes either average, or both mean and sigma")

    def draw(self, random: Random) -> float:
        """One value. From the average: with median m and average a, mu = ln m and sigma^2 = 2 ln(a / m)."""
        mu, sigma = self.mean or 0.0, self.sigma or 0.0
        if self.average is not None:
            ratio = self.median_ratio or 0.85
            mu, sigma = math.log(self.average * ratio), math.sqrt(-2 * math.log(ratio))
        return _at_most(random.lognormvariate(mu, sigma), self.max)


class Zipf(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="distribution", tag="zipf"):
    """P(k) proportional to k^-alpha for k = 1, 2, ..."""

    alpha: Annotated[float, msgspec.Meta(gt=1)]
    max: Positive | None = None

    def draw(self, random: Random) -> float:
        """One value, by rejection (Devroye 1986, chapter X.6)."""
        b = 2.0 ** (self.alpha - 1)
        while True:
            x = math.floor(math.exp(min(random.expovariate(1.0) / (self.alpha - 1), _LARGEST_LOG)))
            t = (1 + 1 / x) ** (self.alpha - 1)
            if random.random() * x * (t - 1) / (b - 1) <= t / b:
                return _at_most(x, self.max)


class Poisson(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="distribution", tag="poisson"):
    """With the expected value ``alpha``."""

    alpha: Annotated[float, msgspec.Meta(gt=0, le=1_000_000)]
    max: Positive | None = None

    def draw(self, random: Random) -> float:
        """One value: arrivals, exponentially far apart, in a time of ``alpha``."""
        passed, count = random.expovariate(1.0), 0
        while passed <= self.alpha:
            passed, count = passed + random.expovariate(1.0), count + 1
        return _at_most(count, self.max)


Distribution = Constant | Uniform | Lognormal | Zipf | Poisson


def _at_most(value: float, most: float | None) -> float:
    return value if most is None else min(value, most)


class PromptInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Messages of a conversation (both sides), and tokens: of what all have in common, of its own prefix, of a turn."""

    num_turns: Distribution
    num_tokens: Distribution
    prefix_num_tokens: Distribution
    common_prefix_num_tokens: Distribution = Constant(0)


class PromptOutput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tokens of a reply."""

    num_tokens: Distribution


class Generator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file. ``text_files`` are not read and ``print_stats`` has no effect: text comes from a word list."""

    filetype: Literal["generate_conversations"]
    num_conversations: Annotated[int, msgspec.Meta(gt=0)]
    text_files: list[str]
    prompt_input: PromptInput
    prompt_output: PromptOutput
    print_stats: bool = False


def read_generator(path: Path) -> Generator:
    """Raises UsageError: the file is not there, or is not of this format; names the key."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Generator)
    except OSError as e:
        raise UsageError(f"{path} cannot be read: {e.strerror}.") from e
    except msgspec.DecodeError as e:
        raise UsageError(
            f"{path} is not of vLLM's format for multi-turn conversations (generate_multi_turn.json): {e}."
        ) from e


def generate(generator: Generator, conversations: int, warm_up: int, seed: int) -> list[dict[str, Any]]:
    """``warm_up`` and then ``conversations`` rows.

    Raises:
        UsageError: a message would have more than :data:`MOST_TOKENS` tokens, or a conversation more than
            :data:`MOST_MESSAGES` messages.
    """
    shared = _tokens(generator.prompt_input.common_prefix_num_tokens, Random(f"{seed}/shared"), 0)
    shapes = [_shape(generator, Random(f"{seed}/{number}"), shared) for number in range(warm_up + conversations)]
    return numbered(shapes, warm_up, seed, shared)


def _shape(generator: Generator, random: Random, shared: int) -> list[Turn]:
    given = generator.prompt_input
    messages = _whole(given.num_turns, random, 2, MOST_MESSAGES, "A conversation of {:,.0f} messages")
    prefix = _tokens(given.prefix_num_tokens, random, 0)
    turns = []
    for number in range(math.ceil(messages / 2)):
        wanted = _tokens(given.num_tokens, random, LEAST_TOKENS)
        if number == 0:
            wanted = prefix + max(wanted - shared, LEAST_TOKENS)
        turns.append(Turn(wanted, _tokens(generator.prompt_output.num_tokens, random, 1)))
    return turns


def _tokens(distribution: Distribution, random: Random, least: int) -> int:
    return _whole(distribution, random, least, MOST_TOKENS, "A message of {:,.0f} tokens")


def _whole(distribution: Distribution, random: Random, least: int, most: int, what: str) -> int:
    drawn = distribution.draw(random)
    if drawn > most:
        raise UsageError(
            f'{what.format(drawn)} was drawn from {distribution}; {most:,} are the most: give the distribution a "max".'
        )
    return max(least, round(drawn))
