from collections import Counter

from agentflow.controller.placement import SLACK_EPISODES, Placement


def workers(n: int) -> list[str]:
    return [f"worker-{i}" for i in range(n)]


def test_the_episodes_of_a_group_go_to_one_worker_while_that_is_not_ahead_of_the_others() -> None:
    placement = Placement()
    placement.set_workers(workers(4))
    assert len({placement.place("a") for _ in range(2)}) == 1


def test_two_groups_start_on_different_workers() -> None:
    placement = Placement()
    placement.set_workers(workers(2))
    assert placement.place("a") != placement.place("b")


def test_few_items_with_many_samples_use_every_worker() -> None:
    placement = Placement()
    placement.set_workers(workers(96))
    load = Counter(placement.place(f"item-{i}") for i in range(30) for _ in range(64))
    assert len(load) == 96
    assert max(load.values()) - min(load.values()) <= SLACK_EPISODES


def test_many_items_stay_on_their_own_worker() -> None:
    placement = Placement()
    placement.set_workers(workers(8))
    homes = [{placement.place(f"item-{i}") for _ in range(8)} for i in range(64)]
    assert sum(len(h) for h in homes) <= 1.1 * len(homes)


def test_an_unhealthy_worker_is_given_nothing() -> None:
    placement = Placement()
    placement.set_workers(workers(2))
    first = placement.place("a")
    placement.set_workers([w for w in workers(2) if w != first])
    assert placement.place("a") != first


def test_without_a_healthy_worker_nothing_is_placed() -> None:
    placement = Placement()
    assert placement.place("a") is None
    placement.set_workers(workers(1))
    assert placement.place("a") == "worker-0"
    placement.set_workers([])
    assert placement.place("a") is None


def test_a_worker_that_ends_its_episodes_is_filled_again() -> None:
    placement = Placement()
    placement.set_workers(workers(2))
    for i in range(10):
        placement.place(f"i{i}")
    for _ in range(5):
        placement.release("worker-0")
    assert [placement.place(f"j{i}") for i in range(3)] == ["worker-0"] * 3
