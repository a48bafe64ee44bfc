"""agentflow run examples/openai_loop.py --limit 4 --n-samples 4 --item-metric examples/majority.py:majority

A metric of one's own over the samples of an item: is the answer that most of them give the right one (maj@k)?
"""

import re
from collections import Counter

from agentflow.store import read_calls


def majority(results, run_dir):
    """The reward of the most frequent answer; the earliest of several that are equally frequent."""
    answers = [last_number(read_calls(run_dir, result)) for result in results]
    most_frequent, _ = Counter(answers).most_common(1)[0]
    return results[answers.index(most_frequent)].reward


def last_number(calls):
    text = calls[-1]["response"]["choices"][0]["message"]["content"] if calls else ""
    numbers = re.findall(r"-?\d+(?:\.\d+)?", text or "")
    return numbers[-1] if numbers else None
