from collections import Counter

import pytest

from agentflow.controller.board import Assignment, Board, Work
from agentflow.controller.placement import Placement
from agentflow.controller.retry import RunnerEnd
from agentflow.episode import Episode, EpisodeResult, Kind, Outcome


def works(items: int, samples: int = 1) -> list[Work]:
    return [Work(Episode(f"i{i}", s), dict, "agent-0") for i in range(items) for s in range(samples)]


def board(lost_retries: int = 3, runners: int = 1, capacity: int = 4) -> Board:
    placement = Placement()
    placement.set_workers(["worker-0", "worker-1"])
    b = Board(placement, lost_retries)
    for i in range(runners):
        b.add_runner(f"runner-{i}", capacity)
    return b


def hand_out(b: Board, cap: int = 1000) -> list[Assignment]:
    out = []
    while (a := b.next(cap)) is not None:
        out.append(a)
    return out


def scored(a: Assignment) -> EpisodeResult:
    e = a.work.episode
    return EpisodeResult(e.item_id, e.sample_index, e.attempt, Outcome.SCORED, reward=1.0)


def lost(a: Assignment) -> EpisodeResult:
    e = a.work.episode
    return EpisodeResult(e.item_id, e.sample_index, e.attempt, Outcome.LOST, kind=Kind.UNREACHABLE)


def test_never_more_is_handed_out_than_the_cap_or_the_runners_take() -> None:
    b = board(runners=2, capacity=4)
    b.add(works(100))
    assert len(hand_out(b, cap=5)) == 5
    assert len(hand_out(b, cap=1000)) == 3
    assert b.in_flight == 8


def test_runners_are_filled_evenly() -> None:
    b = board(runners=3, capacity=10)
    b.add(works(12))
    assert set(Counter(a.runner for a in hand_out(b)).values()) == {4}


def test_the_work_is_drawn_only_as_it_is_handed_out() -> None:
    drawn = []
    b = board(capacity=3)
    b.add((drawn.append(w), w)[1] for w in works(1000))
    hand_out(b)
    assert len(drawn) <= 4


def test_every_episode_is_played_exactly_once_when_nothing_goes_wrong() -> None:
    b = board(runners=2)
    b.add(works(10, samples=3))
    ended: Counter[str] = Counter()
    while not b.idle:
        for a in hand_out(b):
            settled = b.ended(a.runner, a.work.episode, scored(a))
            assert settled is not None
            ended[settled.result.id] += 1
    assert len(ended) == 30
    assert set(ended.values()) == {1}


def test_a_result_of_another_attempt_or_from_another_runner_is_dropped_and_counted() -> None:
    b = board(runners=2)
    b.add(works(1))
    (a,) = hand_out(b)
    assert b.ended("runner-of-old", a.work.episode, scored(a)) is None
    assert b.ended(a.runner, Episode("i0", 0, attempt=7), scored(a)) is None
    assert b.ended(a.runner, Episode("nobody", 0), scored(a)) is None
    assert b.stale == 3
    assert b.ended(a.runner, a.work.episode, scored(a)) is not None
    assert b.ended(a.runner, a.work.episode, scored(a)) is None, "the same result counted twice"


def test_a_lost_attempt_is_followed_by_the_next_one_and_its_line_is_not_final() -> None:
    b = board(lost_retries=1)
    b.add(works(1))
    (first,) = hand_out(b)
    settled = b.ended(first.runner, first.work.episode, lost(first))
    assert settled is not None
    assert not settled.result.final
    (second,) = hand_out(b)
    assert second.work.episode.attempt == 1
    settled = b.ended(second.runner, second.work.episode, lost(second))
    assert settled is not None
    assert settled.result.final
    assert b.idle


def test_a_dead_runner_gives_back_all_its_episodes_and_takes_nothing_new() -> None:
    b = board(runners=2, capacity=3)
    b.add(works(6))
    handed = hand_out(b)
    settled = b.runner_gone("runner-0", RunnerEnd.CRASHED, "runner-0 was killed")
    assert {s.result.id for s in settled} == {a.work.episode.id for a in handed if a.runner == "runner-0"}
    assert all(s.result.kind is Kind.RUNNER_DIED and not s.result.final for s in settled)
    assert b.next(1000) is None, "runner-1 is full and runner-0 is dead"
    assert b.runner_gone("runner-0", RunnerEnd.CRASHED, "again") == []


def test_the_episode_that_kills_its_runners_fails_alone_and_its_neighbours_all_score() -> None:
    b = board(capacity=4)
    b.add(works(8))
    final: dict[str, EpisodeResult] = {}
    runner = 0
    for _ in range(100):
        if b.idle:
            break
        handed = hand_out(b)
        assert handed
        if any(a.work.history.alone for a in handed):
            assert b.in_flight == 1, "it does not play alone"
        if any(a.work.episode.item_id == "i2" for a in handed):  # i2 is the poison
            ended = b.runner_gone(f"runner-{runner}", RunnerEnd.CRASHED, "died")
            runner += 1
            b.add_runner(f"runner-{runner}", 4)
        else:
            ended = [s for a in handed if (s := b.ended(a.runner, a.work.episode, scored(a))) is not None]
        final.update({s.result.id: s.result for s in ended if s.result.final})
    assert len(final) == 8
    assert final["i2/0"].kind is Kind.RUNNER_CRASH
    assert all(r.outcome is Outcome.SCORED for i, r in final.items() if i != "i2/0")
    assert runner == 3


def test_a_runner_that_is_draining_is_given_nothing() -> None:
    b = board()
    b.add(works(1))
    b.drain_runner("runner-0")
    assert b.next(1000) is None


def test_after_close_nothing_is_handed_out_and_a_gone_runner_means_cancelled() -> None:
    b = board()
    b.add(works(8))
    hand_out(b)
    b.close()
    assert b.next(1000) is None
    settled = b.runner_gone("runner-0", RunnerEnd.REPLACED, "stopped")
    assert [s.result.outcome for s in settled] == [Outcome.CANCELLED] * 4
    assert all(s.result.final for s in settled)


def test_without_a_healthy_worker_nothing_is_handed_out_and_nothing_is_lost() -> None:
    placement = Placement()
    b = Board(placement, 3)
    b.add_runner("runner-0", 4)
    b.add(works(3))
    assert b.next(1000) is None
    placement.set_workers(["worker-0"])
    assert len(hand_out(b)) == 3


@pytest.mark.parametrize("peeks", [1, 5])
def test_asking_whether_the_board_is_idle_loses_no_work(peeks: int) -> None:
    b = board(capacity=10)
    b.add(iter(works(3)))
    for _ in range(peeks):
        assert not b.idle
    assert [a.work.episode.item_id for a in hand_out(b)] == ["i0", "i1", "i2"]


def test_a_runner_that_loads_another_agent_keeps_what_it_plays() -> None:
    b = board(capacity=4)
    b.add(works(8))
    playing = hand_out(b)
    b.add_runner("runner-0", 4)
    assert b.next(1000) is None, "it was given more than it takes"
    settled = b.runner_gone("runner-0", RunnerEnd.CRASHED, "gone")
    assert {s.work.episode for s in settled} == {a.work.episode for a in playing}
