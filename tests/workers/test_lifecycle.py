"""When an engine is up, restarted, hung, or given up."""

from __future__ import annotations

import pytest

from agentflow.workers.lifecycle import (
    FIRST_BACKOFF_S,
    LONGEST_BACKOFF_S,
    PORT_TRIES,
    SETTLED_S,
    STARTING_PROBE_S,
    Down,
    Lifecycle,
    Up,
)


def life(deadline_s: float = 100, max_restarts: int = 3, hang_s: float = 60) -> Lifecycle:
    return Lifecycle(deadline_s=deadline_s, max_restarts=max_restarts, hang_s=hang_s, heartbeat_s=2)


def up_at(now: float, one: Lifecycle) -> Lifecycle:
    one.started(now)
    assert isinstance(one.probed(now, healthy=True, tokens=0), Up)
    return one


def test_the_first_healthy_answer_is_up_and_later_ones_are_no_news() -> None:
    one = life()
    one.started(0)
    assert one.probe_in_s == STARTING_PROBE_S
    assert one.probed(1, healthy=False, tokens=None) is None
    assert one.probed(2, healthy=True, tokens=0) == Up(generation=0)
    assert one.probe_in_s == 2
    assert one.probed(4, healthy=True, tokens=0) is None


def test_an_engine_that_exits_before_it_was_ever_healthy_is_given_up_at_once() -> None:
    one = life()
    one.started(0)
    assert one.exited(1, "exited with code 1") == Down("exited with code 1 before it was healthy", None)


def test_an_engine_that_is_not_healthy_by_its_deadline_is_given_up_and_not_a_moment_before() -> None:
    one = life(deadline_s=100)
    one.started(50)
    assert one.probed(149.9, healthy=False, tokens=None) is None
    assert one.probed(150, healthy=False, tokens=None) == Down("was not healthy within 100 s of its start", None)


def test_restarts_are_bounded_and_wait_twice_as_long_each_time() -> None:
    one = up_at(0, life(max_restarts=3))
    waits = []
    for i in range(3):
        down = one.exited(i, "died")
        waits.append(down.restart_in_s)
        up_at(i, one)
    assert waits == [FIRST_BACKOFF_S, 2 * FIRST_BACKOFF_S, 4 * FIRST_BACKOFF_S]
    assert one.exited(4, "died") == Down("died; it has been restarted 3 times", None)


def test_the_wait_is_bounded() -> None:
    one = up_at(0, life(max_restarts=20))
    for i in range(19):
        one.exited(i, "died")
        up_at(i, one)
    assert one.exited(20, "died").restart_in_s == LONGEST_BACKOFF_S


def test_a_restart_that_does_not_come_up_counts_as_one_more_death() -> None:
    one = up_at(0, life(max_restarts=2))
    assert one.exited(1, "died").restart_in_s is not None
    one.started(2)
    assert one.exited(3, "died").restart_in_s is not None
    one.started(4)
    assert one.exited(5, "died").restart_in_s is None


def test_an_engine_that_served_for_long_has_all_its_restarts_again() -> None:
    one = up_at(0, life(max_restarts=1))
    assert one.exited(1, "died").restart_in_s == FIRST_BACKOFF_S
    up_at(2, one)
    assert one.exited(2 + SETTLED_S, "died").restart_in_s == FIRST_BACKOFF_S


def test_every_start_has_its_generation() -> None:
    one = up_at(0, life())
    one.exited(1, "died")
    one.started(2)
    assert one.probed(3, healthy=True, tokens=0) == Up(generation=1)


def test_no_answer_and_no_token_for_long_is_hung() -> None:
    one = up_at(0, life(hang_s=60))
    assert one.probed(59.9, healthy=False, tokens=None) is None
    assert one.probed(60, healthy=False, tokens=None) == Down(
        "is hung: no answer and no new token for 60 s", FIRST_BACKOFF_S
    )


def test_a_busy_engine_whose_probes_fail_is_not_hung_while_tokens_come() -> None:
    one = up_at(0, life(hang_s=60))
    for now in range(0, 600, 30):
        assert one.probed(now, healthy=False, tokens=now) is None
    assert isinstance(one.probed(570 + 60, healthy=False, tokens=570), Down)


def test_an_idle_engine_that_answers_is_not_hung() -> None:
    one = up_at(0, life(hang_s=60))
    for now in range(0, 600, 30):
        assert one.probed(now, healthy=True, tokens=5) is None


def test_counters_that_cannot_be_read_do_not_count_as_standing_still_when_they_come_back() -> None:
    one = up_at(0, life(hang_s=60))
    assert one.probed(50, healthy=False, tokens=7) is None
    assert one.probed(100, healthy=False, tokens=None) is None
    assert one.probed(109, healthy=False, tokens=8) is None
    assert one.probed(168, healthy=False, tokens=8) is None


def test_a_new_start_is_not_hung_by_the_old_ones_clock() -> None:
    one = up_at(0, life(hang_s=60))
    one.probed(60, healthy=False, tokens=None)
    up_at(1000, one)
    assert one.probed(1030, healthy=False, tokens=None) is None


def test_a_lost_port_is_no_fault_of_the_engine_but_not_for_ever() -> None:
    one = life()
    for now in range(PORT_TRIES):
        one.started(now)
        assert one.exited(now, "exited with code 1", port_lost=True).restart_in_s == 0
    one.started(9)
    assert one.exited(9, "exited with code 1", port_lost=True).restart_in_s is None


@pytest.mark.parametrize("port_lost", [True, False])
def test_a_running_engine_that_dies_has_not_lost_its_port(port_lost: bool) -> None:
    one = up_at(0, life())
    assert one.exited(1, "was killed by SIGKILL", port_lost=port_lost) == Down("was killed by SIGKILL", FIRST_BACKOFF_S)
