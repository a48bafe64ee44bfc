import pytest

from agentflow.controller.retry import CRASHES_BEFORE_ALONE, REPLACED_BEFORE_ALONE, History, RunnerEnd, settle
from agentflow.episode import EpisodeResult, Kind, Outcome


def result(outcome: Outcome, **fields: object) -> EpisodeResult:
    return EpisodeResult("a", 0, 0, outcome, **fields)  # type: ignore[arg-type]


LOST = result(Outcome.LOST, kind=Kind.RUNNER_DIED)


def test_an_outcome_that_is_not_lost_is_final_at_once() -> None:
    for outcome in (Outcome.SCORED, Outcome.FAILED, Outcome.REJECTED, Outcome.CANCELLED):
        verdict = settle(result(outcome), History(), lost_retries=3)
        assert not verdict.again
        assert verdict.result.final


def test_a_lost_episode_is_tried_as_often_as_allowed_and_then_stays_lost() -> None:
    history, attempts = History(), 0
    while (verdict := settle(LOST, history, lost_retries=3)).again:
        assert not verdict.result.final
        history, attempts = verdict.history, attempts + 1
    assert attempts == 3
    assert verdict.result.final
    assert verdict.result.outcome is Outcome.LOST


def test_whoever_was_on_two_dead_runners_is_played_alone_and_only_a_death_there_is_its_own() -> None:
    history = History()
    for crash in range(CRASHES_BEFORE_ALONE):
        verdict = settle(LOST, history, lost_retries=0, end=RunnerEnd.CRASHED)
        assert verdict.again, f"crash {crash} was held against the episode"
        history = verdict.history
    assert history.alone
    verdict = settle(LOST, history, lost_retries=0, end=RunnerEnd.CRASHED)
    assert not verdict.again
    assert (verdict.result.outcome, verdict.result.kind) == (Outcome.FAILED, Kind.RUNNER_CRASH)


def test_a_lost_node_never_makes_an_episode_suspect() -> None:
    history = History()
    for _ in range(10):
        verdict = settle(LOST, history, lost_retries=100, end=RunnerEnd.NODE)
        history = verdict.history
    assert verdict.again
    assert history.crashes == 0
    assert not history.alone


def test_a_node_that_dies_under_an_episode_playing_alone_does_not_fail_it() -> None:
    verdict = settle(LOST, History(crashes=2, alone=True), lost_retries=3, end=RunnerEnd.NODE)
    assert verdict.again
    assert verdict.history.alone


def test_neighbours_of_an_episode_that_did_not_end_lose_nothing_of_their_budget() -> None:
    verdict = settle(LOST, History(lost=3), lost_retries=3, end=RunnerEnd.REPLACED)
    assert verdict.again
    assert verdict.history.lost == 3
    assert not verdict.history.alone


@pytest.mark.parametrize("end", [RunnerEnd.REPLACED, None], ids=["replaced", "terminated"])
def test_whoever_was_on_several_runners_that_left_is_played_alone(end: RunnerEnd | None) -> None:
    history = History()
    for _ in range(REPLACED_BEFORE_ALONE):
        assert not history.alone
        verdict = settle(LOST, history, lost_retries=3, end=end)
        assert verdict.again
        history = verdict.history
    assert history.alone


def test_an_episode_that_has_its_runner_replaced_while_it_plays_alone_is_not_tried_for_ever() -> None:
    verdict = settle(LOST, History(replaced=3, alone=True), lost_retries=3, end=RunnerEnd.REPLACED)
    assert not verdict.again
    assert (verdict.result.outcome, verdict.result.kind) == (Outcome.FAILED, Kind.RUNNER_CRASH)
    assert verdict.result.final


def test_a_runner_that_is_told_to_end_while_an_episode_plays_alone_in_it_costs_a_try_and_is_no_failure() -> None:
    verdict = settle(LOST, History(lost=3, replaced=3, alone=True), lost_retries=3)
    assert not verdict.again
    assert verdict.result.outcome is Outcome.LOST
