"""Text of a given number of tokens, without a tokenizer: common words, and what the endpoint says a word costs.

The words are frequent ones, nearly all of them one token behind a space in the vocabularies in use, so that a text of n
words varies little around its mean. How many tokens a word costs on average is asked of the endpoint
(:func:`tokens_per_word`), and what was really sent is reported by its ``usage``.
"""

from __future__ import annotations

from random import Random

_LIST = """
time year people way day man thing woman life child world school state family student group country problem hand
part place case week company system program question work government number night point home water room mother area
money story fact month lot right study book eye job word business issue side kind head house service friend father
power hour game line end member law car city community name president team minute idea body information back parent
face others level office door health person art war history party result change morning reason research girl guy
moment air teacher force education foot boy age policy music market sense nation plan college interest death
experience effect use class control field development role effort rate heart drug show leader light voice wife
police mind price report decision son view relationship town road arm difference value building action model season
society tax director position player record paper space ground form event official matter center couple site project
activity star table need court oil situation cost industry figure street image phone data picture practice piece
land product doctor wall patient worker news test movie north love support technology step baby computer type film
tree source hair window culture chance brother energy period course summer plant opportunity term letter condition
choice rule daughter south husband floor campaign material population call economy hospital church risk fire future
"""
WORDS = tuple(_LIST.split())

PROBE_WORDS = (100, 400)  # of the two requests that ask what a word costs


def text(random: Random, tokens: int, per_word: float) -> str:
    """Words that come to about ``tokens``; at least one."""
    return " ".join(random.choices(WORDS, k=max(1, round(tokens / per_word))))


def probe(words: int) -> str:
    """The text of a request that asks what a word costs: the same for the same number."""
    return " ".join(Random(0).choices(WORDS, k=words))


def tokens_per_word(short_prompt: int, long_prompt: int) -> float:
    """From the prompt tokens of the two probes; what the chat template adds cancels out.

    Raises:
        ValueError: the longer one did not cost more.
    """
    short, long = PROBE_WORDS
    if long_prompt <= short_prompt:
        raise ValueError(f"{long} words cost {long_prompt} tokens and {short} words {short_prompt}")
    return (long_prompt - short_prompt) / (long - short)
