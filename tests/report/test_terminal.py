"""The final table says what the numbers say, and what to do next."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from report_samples import call, result_of

from agentflow.episode import Kind, Outcome
from agentflow.metrics import OwnMetrics, Scoring, item_mean, summarize
from agentflow.report import final_table


def table(printed, results, scoring, run="runs/math/1", width=100, **named):
    return printed(final_table, summarize(results, scoring), Path(run), width=width, **named)


def scored(n, reward=1.0, **fields):
    return [result_of(f"i{k}", reward=reward, **fields) for k in range(n)]


def test_a_complete_run_shows_its_headline_and_asks_for_nothing(printed):
    text = table(printed, scored(4), Scoring(n_items=4), title="MathAgent on tiny")
    assert "MathAgent on tiny" in text
    assert "1.000   95 % CI 0.283 to 1.000, over 4 items" in text
    assert "100 %   4 of 4 episodes are in the mean" in text
    assert "PARTIAL" not in text
    assert "resume" not in text
    assert "bounds" not in text


@pytest.mark.parametrize(
    ("ended", "items", "words"),
    [(1, 1, "1 of 1 episode is in"), (1, 2, "1 of 2 episodes is in"), (2, 3, "2 of 3 episodes are in")],
)
def test_one_episode_is_and_several_are_in_the_mean(printed, ended, items, words):
    assert words in table(printed, scored(ended), Scoring(n_items=items))


def test_an_unfinished_run_is_marked_partial_with_the_command_that_goes_on(printed):
    text = table(printed, scored(3), Scoring(n_items=4), run="runs/my run")
    assert "PARTIAL: 1 episode not played yet" in text
    assert "agentflow resume 'runs/my run'" in text


def test_lost_episodes_are_bounded_and_owed_but_the_run_is_not_partial(printed):
    lost = result_of("z", outcome=Outcome.LOST, kind=Kind.UNREACHABLE)
    text = table(printed, [*scored(3), lost], Scoring(n_items=4))
    assert "0.750 to 1.000   if the 1 lost got the lowest or highest" in text
    assert "1 lost: unreachable   such as z/0" in text
    assert "Play the 1 episode still owed" in text
    assert "PARTIAL" not in text


def test_failures_are_shown_by_kind_with_an_episode_to_look_at(printed):
    failed = result_of("it's", outcome=Outcome.FAILED, kind=Kind.TIMEOUT)
    text = table(printed, [*scored(3), failed], Scoring())
    assert "3 scored   1 failed" in text
    assert "25 %   depends on the hardware" in text
    assert "agentflow show runs/math/1 --episode 'it'\"'\"'s/0'" in text


def test_a_command_is_never_cut_into_lines(printed):
    run = "/a/very/long/" + "path/" * 30 + "run"
    text = table(printed, scored(1), Scoring(n_items=2), run=run, width=80)
    assert f"  agentflow resume {run}\n" in text


def test_workers_stand_side_by_side_only_when_there_are_several_and_the_bad_one_is_marked(printed):
    good = scored(30, worker="w-0", calls=(call(0, worker="w-0"),))
    bad = [result_of(f"b{k}", reward=0.0, worker="w-1", calls=(call(0, worker="w-1"),)) for k in range(30)]
    text = table(printed, [*good, *bad], Scoring(), width=80)
    assert "w-1 !" in text
    assert "w-0 !" not in text
    assert "compare this worker's engine" in text
    assert "worker  " not in table(printed, good, Scoring())


def test_pass_at_k_says_over_how_many_items_where_some_have_too_few_episodes(printed):
    results = [*scored(2), result_of("lost", outcome=Outcome.LOST)]
    results.append(msgspec.structs.replace(results[0], sample_index=1, reward=0.0))
    text = table(printed, results, Scoring(n_samples=2))
    assert "1: 0.750   2: 1.000 (1 item)" in text
    assert "pass^k" in text


def test_a_breakdown_of_many_values_shows_the_largest_and_says_where_the_rest_is(printed):
    results = [result_of(f"i{k}", groups={"subject": f"[s{k}]"}) for k in range(50)]
    text = table(printed, results, Scoring())
    assert "[s0]" in text
    assert "and 30 more in summary.json" in text


def test_a_breakdown_counts_the_items_that_are_in_none_of_its_rows(printed):
    results = [result_of(f"i{k}", groups={"level": "1"} if k < 3 else {}) for k in range(5)]
    line = next(line for line in table(printed, results, Scoring()).splitlines() if "(without)" in line)
    assert line.split() == ["(without)", "2"]
    assert "(without)" not in table(printed, results[:3], Scoring())


def test_nothing_played_has_no_number(printed):
    text = table(printed, [], Scoring(n_items=4))
    assert "no episode was scored or failed" in text
    assert "nan" not in text.lower()


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_its_terminal(printed, width):
    results = [
        result_of(
            f"math-{k:03}",
            calls=(call(0, worker=f"llamacpp-{k % 3}", truncated=True, tool_calls=1),),
            worker=f"llamacpp-{k % 3}",
            groups={"level": str(k % 4)},
            metrics={"steps": 2.0},
            warnings=("Scored without a single call to a model: is its client pointed at base_url?",),
        )
        for k in range(40)
    ]
    text = table(printed, results, Scoring(n_items=40), width=width, title="MathAgent on SmolLM2-135M-Instruct")
    assert max(map(len, text.splitlines())) <= width
    assert "\n  l\n" not in text
    assert "llamacpp-2" in text


def test_an_agent_quoted_by_pass_hat_k_has_that_as_its_first_rows(printed):
    results = [result_of(f"i{k}", reward=float(k < 3)) for k in range(4)]
    results += [msgspec.structs.replace(r, sample_index=1, reward=float(r.item_id == "i0")) for r in results]
    text = table(printed, results, Scoring(n_samples=2, headline="pass^k"))
    first, second = (line for line in text.splitlines() if "pass^" in line)
    assert first.split()[:2] == ["pass^1", "0.500"]
    assert "over 4 items × 2 samples" in first
    assert second.split()[:2] == ["pass^2", "0.250"]
    assert not [line for line in text.splitlines() if line.split()[:1] == ["reward"]]  # the same number again
    assert "pass@k" in text


def test_what_a_failed_episode_counts_shows_beside_pass_hat_k_where_it_is_not_0(printed):
    failed = result_of("z", outcome=Outcome.FAILED, kind=Kind.TIMEOUT)
    text = table(printed, [*scored(1), failed], Scoring(failed_reward=-1.0, headline="pass^k"))
    assert [line.split()[:2] for line in text.splitlines() if "95 % CI" in line] == [
        ["pass^1", "0.500"],
        ["reward", "0.000"],
    ]


def test_rewards_that_are_not_0_or_1_have_their_mean_as_the_headline_whatever_the_agent_wants(printed):
    text = table(printed, scored(2, reward=0.5), Scoring(headline="pass^k"))
    assert "reward" in text
    assert "pass^" not in text


def test_of_very_many_own_metrics_the_table_shows_some_and_says_so(printed):
    own = OwnMetrics({}, {f"k{n}": float(n) for n in range(1000)}, {})
    text = printed(final_table, msgspec.structs.replace(summarize(scored(2), Scoring()), own=own), Path("r"), width=100)
    assert "k39 " in text
    assert "k40 " not in text
    assert "960 more numbers of your own: in summary.json" in text


def test_own_metrics_stand_in_the_table_and_so_does_why_one_is_missing(printed):
    own = OwnMetrics({"spread": item_mean([[0.0], [1.0]])}, {"hardest": 0.25}, {"words": "it raised."})
    summary = msgspec.structs.replace(summarize(scored(2), Scoring()), own=own)
    text = printed(final_table, summary, Path("r"), width=100)
    assert "spread        0.500   95 % CI" in text.replace("  ", "  ")
    assert "hardest" in text
    assert "– it raised." in text


def test_what_most_failed_episodes_say_stands_below_their_number(printed):
    failed = [
        result_of(f"i{k}", outcome=Outcome.FAILED, kind=Kind.EXCEPTION, error="KeyError: 'messages'" if k else "other")
        for k in range(4)
    ]
    text = table(printed, failed, Scoring())
    assert "No episode was scored: is it the agent, or what it was given?" in text
    assert "4 failed: exception   such as i1/0" in text
    assert "KeyError: 'messages'   (3 of them)" in text
    assert "No episode was scored" not in table(printed, [*failed, *scored(1)], Scoring())


def test_where_every_episode_was_rejected_it_is_asked_whether_a_return_is_missing(printed):
    rejected = [result_of(f"i{k}", outcome=Outcome.REJECTED) for k in range(2)]
    text = table(printed, rejected, Scoring())
    assert "2 rejected   such as i0/0" in text
    assert "run() returned None in all of them; is a return missing?" in text
    assert "Look at one of the rejected episodes" in text
    assert "agentflow show runs/math/1 --episode i0/0" in text
    assert "is a return missing" not in table(printed, [*rejected, *scored(1)], Scoring())
